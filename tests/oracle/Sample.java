package a.b;

@interface Mark { String value() default ""; class Held { void m() {} } }

abstract class Sample<T> {
  static { new Object() { void inInitializer() {} }; }
  Runnable r = new Runnable() { @Override public void run() { class Local { void inLocal() {} } } };

  @Deprecated
  Sample() { this(() -> { return new Object() { int inLambda() { return 1; } }; }); }

  Sample(Object o) {}

  abstract <U> U abstractOne(U u);

  native int nativeOne();

  interface In { void declared(); default void defaulted() {} private static void hidden() {} }

  enum E { A { @Override int f() { return 1; } }, B; int f() { return 2; } E() {} }

  record R(int a) { R { if (a < 0) throw new IllegalArgumentException(); } int twice() { return 2 * a; } }
}
