# ruff: noqa
# fmt: off
import functools


@functools.cache
@functools.wraps(
    print,
)
def decorated(a,
              b):
    def folded():
        class Inside:
            def stays(self): return 1

            @property
            def gone(self): return 2
    return folded


class A:
    @property
    def x(self): return 1

    @x.setter
    def x(self, value): pass

    @functools.cached_property
    def y(self): return 1

    async def z(self) -> None: ...

    if True:
        def conditional(self):
            return """
a text
"""
    else:
        @staticmethod
        def conditional(): return lambda: 1


try:
    import nothing
except ImportError:
    def nothing(): raise NotImplementedError
finally:
    for one in ():
        def in_a_loop(): pass

match []:
    case []:
        def matched(): pass

@property
def no_method(): pass
