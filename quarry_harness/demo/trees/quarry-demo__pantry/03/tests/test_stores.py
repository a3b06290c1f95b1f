from pantry import LruStore, TtlStore, memoize


def test_the_least_recently_used_entry_is_evicted():
    gone = []
    store = LruStore(2, on_evict=lambda key, value: gone.append(key))
    store.put("a", 1)
    store.put("b", 2)
    store.get("a")
    store.put("c", 3)
    assert gone == ["b"]


def test_entries_expire():
    now = [0.0]
    store = TtlStore(10, clock=lambda: now[0])
    store.put("a", 1)
    now[0] = 10.0
    assert store.get("a") is None


def test_repeated_calls_are_answered_from_the_store():
    calls = []

    @memoize(LruStore(8))
    def double(values):
        calls.append(values)
        return [2 * value for value in values]

    assert double([1, 2]) == double([1, 2]) == [2, 4]
    assert len(calls) == 1
