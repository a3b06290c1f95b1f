<?php

declare(strict_types=1);

namespace Stencil;

use Stencil\Node\BlockNode;
use Stencil\Node\Node;

final class Template
{
    /** @param list<Node> $nodes */
    public function __construct(private array $nodes, private ?string $parent)
    {
    }

    public function parent(): ?string
    {
        return $this->parent;
    }

    /** @return array<string, BlockNode> */
    public function blocks(): array
    {
        $found = [];
        $pending = $this->nodes;
        while ($pending !== []) {
            $node = array_pop($pending);
            if ($node instanceof BlockNode) {
                $found[$node->name] = $node;
            }
            array_push($pending, ...$node->children());
        }

        return $found;
    }

    /** @param array<string, BlockNode> $blocks */
    public function render(Scope $scope, Filters $filters, array $blocks): string
    {
        $text = '';
        foreach ($this->nodes as $node) {
            $text .= $node->render($scope, $filters, $blocks);
        }

        return $text;
    }
}
