#include "hexroute/map.hpp"

#include <algorithm>
#include <cstdint>

#include "hexroute/heap.hpp"

namespace hexroute {

namespace {

constexpr char kMagic[4] = {'H', 'X', 'R', '1'};

void put_varint(std::ostream& out, std::uint32_t value)
{
    while (value >= 0x80) {
        out.put(static_cast<char>(value | 0x80));
        value >>= 7;
    }
    out.put(static_cast<char>(value));
}

std::uint32_t get_varint(std::istream& in)
{
    std::uint32_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        const int byte = in.get();
        if (byte == std::char_traits<char>::eof()) {
            throw FormatError("the map ends in the middle of a number");
        }
        value |= static_cast<std::uint32_t>(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return value;
        }
    }
    throw FormatError("a number is too long");
}

std::uint32_t fold(int value)
{
    return (static_cast<std::uint32_t>(value) << 1) ^ static_cast<std::uint32_t>(value >> 31);
}

int unfold(std::uint32_t value)
{
    return static_cast<int>(value >> 1) ^ -static_cast<int>(value & 1);
}

}  // namespace

Map::Map(int radius, int cost) : cheapest_(cost)
{
    for (int q = -radius; q <= radius; ++q) {
        for (int r = std::max(-radius, -q - radius); r <= std::min(radius, -q + radius); ++r) {
            cells_[{q, r}] = cost;
        }
    }
}

void Map::set(Hex h, int cost)
{
    if (cost < 1) {
        throw std::invalid_argument("a cost must be at least 1");
    }
    cells_[h] = cost;
    cheapest_ = std::min(cheapest_, cost);
}

void Map::block(Hex h)
{
    cells_.erase(h);
}

std::optional<int> Map::cost(Hex h) const
{
    const auto found = cells_.find(h);
    if (found == cells_.end()) {
        return std::nullopt;
    }
    return found->second;
}

std::vector<Hex> Map::path(Hex from, Hex to) const
{
    IndexedHeap<Hex, int, HexHash> open;
    std::unordered_map<Hex, int, HexHash> best{{from, 0}};
    std::unordered_map<Hex, Hex, HexHash> came;
    open.offer(from, distance(from, to) * cheapest_);
    while (!open.empty()) {
        const Hex here = open.pop().second;
        if (here == to) {
            std::vector<Hex> cells{to};
            while (cells.back() != from) {
                cells.push_back(came.at(cells.back()));
            }
            std::reverse(cells.begin(), cells.end());
            return cells;
        }
        for (Hex next : neighbors(here)) {
            const auto step = cost(next);
            if (!step) {
                continue;
            }
            const int total = best[here] + *step;
            const auto known = best.find(next);
            if (known == best.end() || total < known->second) {
                best[next] = total;
                came[next] = here;
                open.offer(next, total + distance(next, to) * cheapest_);
            }
        }
    }
    return {};
}

std::unordered_map<Hex, int, HexHash> Map::reachable(Hex from, int budget) const
{
    IndexedHeap<Hex, int, HexHash> open;
    std::unordered_map<Hex, int, HexHash> spent;
    open.offer(from, 0);
    while (!open.empty()) {
        const auto [so_far, here] = open.pop();
        spent[here] = so_far;
        for (Hex next : neighbors(here)) {
            const auto step = cost(next);
            if (step && so_far + *step <= budget && spent.count(next) == 0) {
                open.offer(next, so_far + *step);
            }
        }
    }
    return spent;
}

void Map::save(std::ostream& out) const
{
    std::vector<std::pair<Hex, int>> cells(cells_.begin(), cells_.end());
    std::sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) {
        return std::pair(a.first.q, a.first.r) < std::pair(b.first.q, b.first.r);
    });
    out.write(kMagic, sizeof kMagic);
    put_varint(out, static_cast<std::uint32_t>(cells.size()));
    for (const auto& [h, cost] : cells) {
        put_varint(out, fold(h.q));
        put_varint(out, fold(h.r));
        put_varint(out, static_cast<std::uint32_t>(cost));
    }
}

Map Map::load(std::istream& in)
{
    char magic[sizeof kMagic];
    if (!in.read(magic, sizeof magic) || !std::equal(magic, magic + sizeof magic, kMagic)) {
        throw FormatError("this is not a map");
    }
    Map map;
    for (std::uint32_t left = get_varint(in); left > 0; --left) {
        const int q = unfold(get_varint(in));
        const int r = unfold(get_varint(in));
        map.set({q, r}, static_cast<int>(get_varint(in)));
    }
    return map;
}

}  // namespace hexroute
