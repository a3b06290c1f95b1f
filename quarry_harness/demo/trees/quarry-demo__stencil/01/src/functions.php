<?php

declare(strict_types=1);

use Stencil\Engine;
use Stencil\FileLoader;

if (!function_exists('stencil_escape')) {
    function stencil_escape(mixed $value): string
    {
        return htmlspecialchars((string) $value, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
    }
}

if (!function_exists('stencil_render')) {
    /** @param array<string, mixed> $variables */
    function stencil_render(string $file, array $variables = []): string
    {
        return (new Engine(new FileLoader(dirname($file))))->render(basename($file), $variables);
    }
}
