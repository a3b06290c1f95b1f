<?php

declare(strict_types=1);

namespace Stencil;

/** Loads, keeps and renders templates. */
final class Engine
{
    /** @var array<string, Template> */
    private array $loaded = [];

    public function __construct(
        private Loader $loader,
        private Filters $filters = new Filters(),
        private Lexer $lexer = new Lexer(),
        private Parser $parser = new Parser(),
    ) {
    }

    /** @param array<string, mixed> $variables */
    public function render(string $name, array $variables = []): string
    {
        $template = $this->load($name);
        $blocks = $template->blocks();
        $seen = [$name => true];
        while (($parent = $template->parent()) !== null) {
            if (isset($seen[$parent])) {
                throw new TemplateError("$parent extends itself", 0);
            }
            $seen[$parent] = true;
            $template = $this->load($parent);
            $blocks += $template->blocks();
        }

        return $template->render(new Scope($variables), $this->filters, $blocks);
    }

    private function load(string $name): Template
    {
        return $this->loaded[$name] ??= $this->parser->parse($this->lexer->tokenize($this->loader->source($name)));
    }

    public function forget(string $name): void
    {
        unset($this->loaded[$name]);
    }
}
