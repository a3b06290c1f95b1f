#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hexroute/hex.hpp"

namespace hexroute {

/// A binary heap whose keys can be improved while they wait.
template <typename Key, typename Cost, typename Hash = std::hash<Key>>
class HEXROUTE_API IndexedHeap {
public:
    bool empty() const { return items_.empty(); }

    /// Adds a key, or makes it cheaper; false where it was as cheap already.
    bool offer(const Key& key, Cost cost)
    {
        auto found = places_.find(key);
        if (found == places_.end()) {
            places_[key] = items_.size();
            items_.emplace_back(cost, key);
            up(items_.size() - 1);
            return true;
        }
        if (!(cost < items_[found->second].first)) {
            return false;
        }
        items_[found->second].first = cost;
        up(found->second);
        return true;
    }

    std::pair<Cost, Key> pop()
    {
        auto top = items_.front();
        swap(0, items_.size() - 1);
        items_.pop_back();
        places_.erase(top.second);
        if (!items_.empty()) {
            down(0);
        }
        return top;
    }

private:
    void up(std::size_t i)
    {
        while (i > 0 && items_[i].first < items_[(i - 1) / 2].first) {
            swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
    }

    void down(std::size_t i)
    {
        for (;;) {
            std::size_t least = i;
            for (std::size_t child = 2 * i + 1; child <= 2 * i + 2 && child < items_.size(); ++child) {
                if (items_[child].first < items_[least].first) {
                    least = child;
                }
            }
            if (least == i) {
                return;
            }
            swap(i, least);
            i = least;
        }
    }

    void swap(std::size_t a, std::size_t b)
    {
        std::swap(items_[a], items_[b]);
        places_[items_[a].second] = a;
        places_[items_[b].second] = b;
    }

    std::vector<std::pair<Cost, Key>> items_;
    std::unordered_map<Key, std::size_t, Hash> places_;
};

}  // namespace hexroute
