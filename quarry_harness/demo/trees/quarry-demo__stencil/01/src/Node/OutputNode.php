<?php

declare(strict_types=1);

namespace Stencil\Node;

use Stencil\Expression;
use Stencil\Filters;
use Stencil\Scope;

final class OutputNode implements Node
{
    public function __construct(private Expression $expression)
    {
    }

    public function render(Scope $scope, Filters $filters, array $blocks): string
    {
        $value = $this->expression->evaluate($scope, $filters);

        return $this->expression->isRaw() ? (string) $value : \stencil_escape($value);
    }

    public function children(): array
    {
        return [];
    }
}
