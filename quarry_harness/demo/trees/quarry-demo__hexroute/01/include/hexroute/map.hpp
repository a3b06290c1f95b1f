#pragma once

#include <istream>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "hexroute/hex.hpp"

namespace hexroute {

class FormatError : public std::runtime_error {
public:
    explicit FormatError(const std::string& what) : std::runtime_error(what) {}
};

/// Terrain by cell; what is not there cannot be entered.
class HEXROUTE_API Map {
public:
    Map() = default;
    explicit Map(int radius, int cost = 1);

    void set(Hex h, int cost);
    void block(Hex h);
    std::optional<int> cost(Hex h) const;
    std::size_t size() const noexcept { return cells_.size(); }

    std::vector<Hex> path(Hex from, Hex to) const;
    std::unordered_map<Hex, int, HexHash> reachable(Hex from, int budget) const;

    void save(std::ostream& out) const;
    static Map load(std::istream& in);

private:
    std::unordered_map<Hex, int, HexHash> cells_;
    int cheapest_ = 1;
};

}  // namespace hexroute
