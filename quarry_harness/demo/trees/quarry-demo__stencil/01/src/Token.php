<?php

declare(strict_types=1);

namespace Stencil;

final class Token
{
    public const TEXT = 'text';
    public const OUTPUT = 'output';
    public const STATEMENT = 'statement';

    public function __construct(
        public readonly string $kind,
        public readonly string $value,
        public readonly int $line,
    ) {
    }

    public function keyword(): string
    {
        return $this->kind === self::STATEMENT ? (string) strtok($this->value, " \t\n") : '';
    }

    public function argument(): string
    {
        return trim(substr($this->value, strlen($this->keyword())));
    }
}
