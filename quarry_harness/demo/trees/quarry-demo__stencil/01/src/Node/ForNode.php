<?php

declare(strict_types=1);

namespace Stencil\Node;

use Stencil\Expression;
use Stencil\Filters;
use Stencil\Scope;

final class ForNode implements Node
{
    /** @param list<Node> $body */
    public function __construct(private string $variable, private Expression $list, private array $body)
    {
    }

    public function render(Scope $scope, Filters $filters, array $blocks): string
    {
        $items = $this->list->evaluate($scope, $filters) ?? [];
        $count = is_countable($items) ? count($items) : null;
        $text = '';
        $index = 0;
        foreach ($items as $item) {
            $loop = ['index' => ++$index, 'first' => $index === 1, 'last' => $index === $count];
            $inner = $scope->enter([$this->variable => $item, 'loop' => $loop]);
            foreach ($this->body as $node) {
                $text .= $node->render($inner, $filters, $blocks);
            }
        }

        return $text;
    }

    public function children(): array
    {
        return $this->body;
    }
}
