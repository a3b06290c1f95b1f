<?php

declare(strict_types=1);

namespace Stencil;

final class FileLoader implements Loader
{
    public function __construct(private string $root)
    {
    }

    public function source(string $name): string
    {
        $text = @file_get_contents($this->locate($name));
        if ($text === false) {
            throw new TemplateError("cannot read $name", 0);
        }

        return $text;
    }

    public function isFresh(string $name, int $since): bool
    {
        return (int) @filemtime($this->locate($name)) <= $since;
    }

    /** The real path must stay below the root, whatever dots the name has. */
    private function locate(string $name): string
    {
        $root = realpath($this->root);
        $path = realpath($this->root . DIRECTORY_SEPARATOR . $name);
        if ($root === false || $path === false || !str_starts_with($path, $root . DIRECTORY_SEPARATOR)) {
            throw new TemplateError("no template $name", 0);
        }

        return $path;
    }
}
