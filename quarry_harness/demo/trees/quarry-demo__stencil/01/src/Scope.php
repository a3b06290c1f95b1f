<?php

declare(strict_types=1);

namespace Stencil;

/** Variables, innermost first. */
final class Scope
{
    /** @param array<string, mixed> $variables */
    public function __construct(private array $variables, private ?Scope $outer = null)
    {
    }

    /** @param array<string, mixed> $variables */
    public function enter(array $variables): self
    {
        return new self($variables, $this);
    }

    /** @param list<string> $path */
    public function resolve(array $path): mixed
    {
        $value = $this->find($path[0]);
        foreach (array_slice($path, 1) as $step) {
            $value = match (true) {
                is_array($value) => $value[$step] ?? null,
                is_object($value) && method_exists($value, 'get' . $step) => $value->{'get' . $step}(),
                is_object($value) => $value->{$step} ?? null,
                default => null,
            };
        }

        return $value;
    }

    private function find(string $name): mixed
    {
        if (array_key_exists($name, $this->variables)) {
            return $this->variables[$name];
        }

        return $this->outer?->find($name);
    }
}
