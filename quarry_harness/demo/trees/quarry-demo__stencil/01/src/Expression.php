<?php

declare(strict_types=1);

namespace Stencil;

/** `user.name|trim|default("nobody")`: a path and a chain of filters. */
final class Expression
{
    /**
     * @param list<string> $path
     * @param list<array{string, list<string>}> $filters
     */
    private function __construct(private array $path, private array $filters)
    {
    }

    public static function compile(string $source): self
    {
        $pieces = preg_split('/\|(?=(?:[^"]*"[^"]*")*[^"]*$)/', $source);
        $path = explode('.', trim((string) array_shift($pieces)));
        $filters = [];
        foreach ($pieces as $piece) {
            preg_match('/^\s*(\w+)\s*(?:\((.*)\))?\s*$/s', $piece, $parts);
            $arguments = isset($parts[2]) ? str_getcsv($parts[2], ',', '"', '\\') : [];
            $filters[] = [$parts[1] ?? '', array_map('strval', $arguments)];
        }

        return new self($path, $filters);
    }

    public function evaluate(Scope $scope, Filters $filters): mixed
    {
        $value = $scope->resolve($this->path);
        foreach ($this->filters as [$name, $arguments]) {
            $value = $filters->apply($name, $value, $arguments);
        }

        return $value;
    }

    public function isRaw(): bool
    {
        $last = end($this->filters);

        return $last !== false && $last[0] === 'raw';
    }
}
