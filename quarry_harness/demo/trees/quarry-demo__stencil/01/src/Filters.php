<?php

declare(strict_types=1);

namespace Stencil;

/** Named functions that templates may call. */
final class Filters
{
    /** @var array<string, callable> */
    private array $table = [];

    public function __construct()
    {
        $this->register('upper', static fn (string $text): string => mb_strtoupper($text));
        $this->register('trim', 'trim');
        $this->register('raw', static fn (mixed $value): mixed => $value);
        $this->register('default', static fn (mixed $value, string $other): mixed => $value ?? $other);
        $this->register('ago', [self::class, 'ago']);
        $this->register('truncate', [self::class, 'truncate']);
    }

    public function register(string $name, callable $filter): void
    {
        $this->table[$name] = $filter;
    }

    /** @param list<string> $arguments */
    public function apply(string $name, mixed $value, array $arguments): mixed
    {
        $filter = $this->table[$name] ?? throw new TemplateError("unknown filter $name", 0);

        return $filter($value, ...$arguments);
    }

    public static function ago(int $seconds): string
    {
        foreach (['day' => 86400, 'hour' => 3600, 'minute' => 60] as $unit => $size) {
            $count = intdiv($seconds, $size);
            if ($count > 0) {
                return $count . ' ' . $unit . ($count > 1 ? 's' : '') . ' ago';
            }
        }

        return 'just now';
    }

    public static function truncate(string $text, string $limit): string
    {
        if (mb_strlen($text) <= (int) $limit) {
            return $text;
        }
        $cut = mb_substr($text, 0, (int) $limit);
        $space = mb_strrpos($cut, ' ');

        return ($space === false ? $cut : mb_substr($cut, 0, $space)) . '…';
    }
}
