<?php
namespace A\B;
#[Attribute]
function attributed(int $x): int { function nested() {} return $x; }
if (!function_exists('conditional')) {
    function conditional() { $f = fn($x) => $x; return new class { public function anonymous() {} }; }
} else { function other() {} }
abstract class C {
    #[Pure]
    final public static function &reference(): array { return []; }
    abstract protected function declared();
    public function __construct(private int $a) {}
}
interface I { public function m(); }
trait T { private function t() {} }
enum E: string { case A = 'a'; public function label(): string { return <<<X
  text
  X; } }
?>
<p><?php function after() { ?> text <?php } ?></p>
