<?php

declare(strict_types=1);

namespace Stencil;

interface Loader
{
    public function source(string $name): string;

    public function isFresh(string $name, int $since): bool;
}
