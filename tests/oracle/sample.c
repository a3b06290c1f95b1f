#include <stddef.h>
static inline int
on_two_lines(int a)
{
    return a;
}
int (*pointer)(int), prototype(void);
typedef int (*handler)(int);
handler returns_a_pointer(int a);
static void (*signal_like(int n))(int) { return NULL; }
struct held { int (*member)(struct held *); };
extern int (in_parentheses)(const char *name);
int array(int n, int a[n])
{
#define INNER(x) x
    return INNER(n) + a[0];
}
static void forward(
    int a,
    int b
);
int last(void) { return sizeof(int (*)(void)); }
