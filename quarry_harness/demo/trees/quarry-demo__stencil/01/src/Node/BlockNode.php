<?php

declare(strict_types=1);

namespace Stencil\Node;

use Stencil\Filters;
use Stencil\Scope;

final class BlockNode implements Node
{
    /** @param list<Node> $body */
    public function __construct(public readonly string $name, private array $body)
    {
    }

    public function render(Scope $scope, Filters $filters, array $blocks): string
    {
        $chosen = $blocks[$this->name] ?? $this;
        $text = '';
        foreach ($chosen->body as $node) {
            $text .= $node->render($scope, $filters, $blocks);
        }

        return $text;
    }

    public function children(): array
    {
        return $this->body;
    }
}
