<?php

declare(strict_types=1);

namespace Stencil;

use Stencil\Node\BlockNode;
use Stencil\Node\ForNode;
use Stencil\Node\IfNode;
use Stencil\Node\Node;
use Stencil\Node\OutputNode;
use Stencil\Node\TextNode;

/** Builds the tree that is rendered. */
final class Parser
{
    /** @var list<Token> */
    private array $tokens = [];
    private int $position = 0;
    private ?string $parent = null;

    /** @param list<Token> $tokens */
    public function parse(array $tokens): Template
    {
        $this->tokens = $tokens;
        $this->position = 0;
        $this->parent = null;
        $nodes = $this->until([]);

        return new Template($nodes, $this->parent);
    }

    /**
     * @param list<string> $stops
     * @return list<Node>
     */
    private function until(array $stops): array
    {
        $nodes = [];
        while ($this->position < count($this->tokens)) {
            $token = $this->tokens[$this->position];
            if (in_array($token->keyword(), $stops, true)) {
                return $nodes;
            }
            $this->position++;
            $node = match ($token->kind) {
                Token::TEXT => new TextNode($token->value),
                Token::OUTPUT => new OutputNode(Expression::compile($token->value)),
                default => $this->statement($token),
            };
            if ($node !== null) {
                $nodes[] = $node;
            }
        }
        if ($stops !== []) {
            throw new TemplateError('missing ' . implode(' or ', $stops), end($this->tokens)->line);
        }

        return $nodes;
    }

    private function statement(Token $token): ?Node
    {
        return match ($token->keyword()) {
            'if' => $this->condition($token),
            'for' => $this->loop($token),
            'block' => $this->block($token),
            'extends' => $this->inherit($token),
            default => throw new TemplateError("unknown tag {$token->keyword()}", $token->line),
        };
    }

    private function condition(Token $token): IfNode
    {
        $then = $this->until(['else', 'endif']);
        $else = [];
        if ($this->tokens[$this->position++]->keyword() === 'else') {
            $else = $this->until(['endif']);
            $this->position++;
        }

        return new IfNode(Expression::compile($token->argument()), $then, $else);
    }

    private function loop(Token $token): ForNode
    {
        if (!preg_match('/^(\w+)\s+in\s+(.+)$/s', $token->argument(), $parts)) {
            throw new TemplateError('expected "for item in list"', $token->line);
        }
        $body = $this->until(['endfor']);
        $this->position++;

        return new ForNode($parts[1], Expression::compile($parts[2]), $body);
    }

    private function block(Token $token): BlockNode
    {
        $body = $this->until(['endblock']);
        $this->position++;

        return new BlockNode($token->argument(), $body);
    }

    private function inherit(Token $token): ?Node
    {
        $this->parent = trim($token->argument(), '"\'');

        return null;
    }
}
