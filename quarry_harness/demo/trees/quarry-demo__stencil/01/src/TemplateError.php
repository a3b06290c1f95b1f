<?php

declare(strict_types=1);

namespace Stencil;

final class TemplateError extends \RuntimeException
{
    public function __construct(string $message, int $templateLine)
    {
        parent::__construct($templateLine > 0 ? "$message in line $templateLine" : $message);
    }
}
