<?php

declare(strict_types=1);

namespace Stencil\Node;

use Stencil\Expression;
use Stencil\Filters;
use Stencil\Scope;

final class IfNode implements Node
{
    /**
     * @param list<Node> $then
     * @param list<Node> $else
     */
    public function __construct(private Expression $condition, private array $then, private array $else)
    {
    }

    public function render(Scope $scope, Filters $filters, array $blocks): string
    {
        $text = '';
        foreach ($this->condition->evaluate($scope, $filters) ? $this->then : $this->else as $node) {
            $text .= $node->render($scope, $filters, $blocks);
        }

        return $text;
    }

    public function children(): array
    {
        return [...$this->then, ...$this->else];
    }
}
