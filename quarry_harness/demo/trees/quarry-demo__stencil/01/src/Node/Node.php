<?php

declare(strict_types=1);

namespace Stencil\Node;

use Stencil\Filters;
use Stencil\Scope;

interface Node
{
    /** @param array<string, BlockNode> $blocks */
    public function render(Scope $scope, Filters $filters, array $blocks): string;

    /** @return list<Node> */
    public function children(): array;
}
