using System;

namespace A.B
{
    [Serializable]
    public abstract class Sample<T> : IDisposable where T : class
    {
        static Sample() {}

        [Obsolete]
        protected Sample(int a)
            : base()
        {
            Func<int, int> f = x => x;
            f(a);
        }

        ~Sample() {}

        public int Property { get { return 1; } set {} }
        public int this[int i] => i;
        public static Sample<T> operator +(Sample<T> a, Sample<T> b) => a;
        public event EventHandler Happened;
        public delegate void Handler(int a);

        public abstract void Declared();
        public virtual int Expression(int a) => a + 1;

        [return: NonSerialized]
        public async void
            OnTwoLines<U>(U u)
            where U : struct
        {
        }

        void IDisposable.Dispose() {}

        struct Nested { public void Inside() {} }
    }

    interface IThing { void M(int a); string N(); }

    static class Extensions
    {
        public static int Twice(this int a) { return 2 * a; }
        public static unsafe void Pointer(int* p) {}
    }
}
