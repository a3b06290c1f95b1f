#include "hexroute/hex.hpp"

#include <cmath>
#include <cstdlib>

namespace hexroute {

namespace {

constexpr std::array<Hex, 6> kDirections{{{1, 0}, {1, -1}, {0, -1}, {-1, 0}, {-1, 1}, {0, 1}}};

/// Rounds each coordinate, then repairs the one that moved most, so that the three still add up to 0.
Hex nearest(double q, double r)
{
    const double s = -q - r;
    double rq = std::round(q);
    double rr = std::round(r);
    const double rs = std::round(s);
    const double dq = std::abs(rq - q);
    const double dr = std::abs(rr - r);
    const double ds = std::abs(rs - s);
    if (dq > dr && dq > ds) {
        rq = -rr - rs;
    } else if (dr > ds) {
        rr = -rq - rs;
    }
    return {static_cast<int>(rq), static_cast<int>(rr)};
}

}  // namespace

int distance(Hex a, Hex b)
{
    return (std::abs(a.q - b.q) + std::abs(a.r - b.r) + std::abs(a.s() - b.s())) / 2;
}

Hex rotate(Hex h, int sixths)
{
    for (int turns = ((sixths % 6) + 6) % 6; turns > 0; --turns) {
        h = {-h.r, -h.s()};
    }
    return h;
}

Hex rotate(Hex h, Hex center, int sixths)
{
    const Hex turned = rotate({h.q - center.q, h.r - center.r}, sixths);
    return turned + center;
}

std::array<Hex, 6> neighbors(Hex h)
{
    std::array<Hex, 6> around{};
    for (std::size_t i = 0; i < around.size(); ++i) {
        around[i] = h + kDirections[i];
    }
    return around;
}

std::vector<Hex> ring(Hex center, int radius)
{
    if (radius == 0) {
        return {center};
    }
    std::vector<Hex> cells;
    Hex h{center.q - radius, center.r + radius};
    for (const Hex& direction : kDirections) {
        for (int step = 0; step < radius; ++step) {
            cells.push_back(h);
            h = h + direction;
        }
    }
    return cells;
}

std::vector<Hex> line(Hex from, Hex to)
{
    const int steps = distance(from, to);
    std::vector<Hex> cells;
    cells.reserve(static_cast<std::size_t>(steps) + 1);
    for (int i = 0; i <= steps; ++i) {
        const double t = steps == 0 ? 0.0 : static_cast<double>(i) / steps;
        // A tiny nudge keeps points on an edge on the same side all along.
        cells.push_back(nearest(from.q + 1e-6 + (to.q - from.q) * t, from.r + 1e-6 + (to.r - from.r) * t));
    }
    return cells;
}

}  // namespace hexroute
