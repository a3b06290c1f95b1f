export function f(a: string): string
export function f(a: number): number
export function f(a: any) { return { inner() { return 1 } } }
export default async function named() {}
function* generator() {}
const arrow =
  async <T,>(x: T) => x, second = function () {}
export abstract class C<T> extends Base {
  field = () => 1
  constructor(private a: number) { super() }
  abstract area(): number
  static async s(): Promise<void> {}
  get v() { return 1 }
  set v(x) {}
  @decorated()
  decoratedMethod() {
    function folded() {}
  }
  *generated() {}
  [Symbol.iterator]() {}
  'quoted name'() {}
}
interface I {
  m(a: number): string
  property: () => void
}
namespace N { export function inside() {} }
declare module 'm' { function ambient(): void }
export const object = {
  method() {},
  pair: function () {},
  'quoted': () => 1,
  nested: { deeper() {} },
}
call({ given() {} })
if (condition) { function conditional() {} }
Foo.prototype.bar = function () { window.later = () => 1 }
const wrapped = ((x: number) => x) as unknown
