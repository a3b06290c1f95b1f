#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#define HEXROUTE_API __attribute__((visibility("default")))

namespace hexroute {

/// Axial coordinates; the third cube coordinate is -q - r.
struct Hex {
    int q = 0;
    int r = 0;

    constexpr int s() const { return -q - r; }

    friend constexpr bool operator==(Hex a, Hex b) { return a.q == b.q && a.r == b.r; }
    friend constexpr bool operator!=(Hex a, Hex b) { return !(a == b); }
    friend constexpr Hex operator+(Hex a, Hex b) { return {a.q + b.q, a.r + b.r}; }
};

struct HexHash {
    std::size_t operator()(Hex h) const noexcept
    {
        std::uint64_t packed = static_cast<std::uint32_t>(h.q);
        packed = packed << 32 | static_cast<std::uint32_t>(h.r);
        packed *= 0x9e3779b97f4a7c15ull;
        return static_cast<std::size_t>(packed ^ packed >> 32);
    }
};

int distance(Hex a, Hex b);
Hex rotate(Hex h, int sixths);
Hex rotate(Hex h, Hex center, int sixths);
std::array<Hex, 6> neighbors(Hex h);
std::vector<Hex> ring(Hex center, int radius);
std::vector<Hex> line(Hex from, Hex to);

template <typename Pred>
bool visible(Hex from, Hex to, Pred&& opaque)
{
    for (Hex h : line(from, to)) {
        if (h != from && h != to && opaque(h)) {
            return false;
        }
    }
    return true;
}

}  // namespace hexroute
