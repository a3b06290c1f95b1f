namespace a::b {
template <typename T, int N = (1 > 2)>
struct S {
    S() = default;
    explicit S(int x) : x_{x} {}
    ~S();
    template <typename U>
    U convert(U u) const { return u; }
    friend bool operator==(const S &, const S &) { return true; }
    operator bool() const { return true; }
    static int (*pointer)(int);
    int x_, y_;
};
template <typename T, int N>
S<T, N>::~S() {
    auto folded = [](int x) { return x; };
    struct Local { void inside() {} };
    folded(1);
}
template <>
template <>
inline int S<int, 1>::convert<int>(int u) const { return u; }
}  // namespace a::b
extern "C" {
int prototype(int, char *);
static int *
returns_a_pointer(void)
{
    return nullptr;
}
}
void (*signal_like(int n))(int) { return nullptr; }
enum class E { A };
E operator+(E a, E) { return a; }
int with_try() try { return 1; } catch (...) { return 2; }
auto trailing(int a) -> decltype(a) { return a; }
