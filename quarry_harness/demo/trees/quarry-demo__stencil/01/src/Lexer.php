<?php

declare(strict_types=1);

namespace Stencil;

/** Cuts a template into text, output tags and statement tags. */
final class Lexer
{
    private const PATTERN = '/\{\{\s*(?<output>.+?)\s*\}\}|\{%\s*(?<statement>.+?)\s*%\}|\{#.*?#\}/s';

    /** @return list<Token> */
    public function tokenize(string $source): array
    {
        $tokens = [];
        $offset = 0;
        preg_match_all(self::PATTERN, $source, $matches, PREG_SET_ORDER | PREG_OFFSET_CAPTURE | PREG_UNMATCHED_AS_NULL);
        foreach ($matches as $match) {
            [$whole, $start] = $match[0];
            if ($start > $offset) {
                $tokens[] = new Token(Token::TEXT, substr($source, $offset, $start - $offset), $this->lineAt($source, $offset));
            }
            if ($match['output'][0] !== null) {
                $tokens[] = new Token(Token::OUTPUT, $match['output'][0], $this->lineAt($source, $start));
            } elseif ($match['statement'][0] !== null) {
                $tokens[] = new Token(Token::STATEMENT, $match['statement'][0], $this->lineAt($source, $start));
            }
            $offset = $start + strlen($whole);
        }
        if ($offset < strlen($source)) {
            $tokens[] = new Token(Token::TEXT, substr($source, $offset), $this->lineAt($source, $offset));
        }

        return $tokens;
    }

    private function lineAt(string $source, int $offset): int
    {
        return substr_count($source, "\n", 0, $offset) + 1;
    }
}
