<?php

declare(strict_types=1);

namespace Stencil\Node;

use Stencil\Filters;
use Stencil\Scope;

final class TextNode implements Node
{
    public function __construct(private string $text)
    {
    }

    public function render(Scope $scope, Filters $filters, array $blocks): string
    {
        return $this->text;
    }

    public function children(): array
    {
        return [];
    }
}
