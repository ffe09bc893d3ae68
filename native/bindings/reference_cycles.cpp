#include "reference_cycles.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msmemscope {
namespace {

using Node = std::uint32_t;
constexpr Node kNone = UINT32_MAX;

// The objects that nothing leads to, numbered, and the references among them.
class Unreached {
public:
    Unreached(const Wanted& wanted, const Met& reached, PyObject* rest) : wanted_(wanted) {
        for (Py_ssize_t place = 0; place < PyList_GET_SIZE(rest); ++place) {
            PyObject* object = PyList_GET_ITEM(rest, place);
            if (object != rest && reached.find(object) == kNowhere) {
                nodes_.add(object, kNowhere);
            }
        }
    }

    // False when the time ran out.
    bool read_references(Deadline& deadline) {
        first_.reserve(nodes_.size() + 1);
        const auto note = [](void* self, PyObject* object, std::size_t /*node*/) {
            auto* graph = static_cast<Unreached*>(self);
            const std::size_t other = graph->nodes_.find(object);
            if (other != kNowhere) {
                graph->referred_.push_back(static_cast<Node>(other));
            }
        };
        ReferenceReader reader(wanted_, nodes_, deadline, note, this);
        for (std::size_t node = 0; node < nodes_.size(); ++node) {
            if (deadline.is_over()) {
                return false;
            }
            first_.push_back(referred_.size());
            reader.read(nodes_.object(node), node);
            reader.hand_on();
        }
        first_.push_back(referred_.size());
        return !deadline.is_over();
    }

    std::size_t size() const { return nodes_.size(); }
    PyObject* object(Node node) const { return nodes_.object(node); }
    std::size_t count(Node node) const { return first_[node + 1] - first_[node]; }
    Node referred(Node node, std::size_t number) const { return referred_[first_[node] + number]; }

private:
    const Wanted& wanted_;
    Met nodes_;
    std::vector<std::size_t> first_;
    std::vector<Node> referred_;
};

// Strongly connected components (Tarjan 1972), without recursion: chains of references are long. Returns the number of
// each object's component, kNone where the object is in no cycle.
std::vector<Node> cycles_of(const Unreached& graph) {
    struct Visited {
        Node node;
        std::size_t next;
    };
    const std::size_t size = graph.size();
    std::vector<Node> order(size, kNone);
    std::vector<Node> low(size, 0);
    std::vector<Node> component(size, kNone);
    std::vector<bool> is_open(size, false);
    std::vector<Node> open;
    std::vector<Visited> path;
    Node visited = 0;
    for (Node start = 0; start < size; ++start) {
        if (order[start] != kNone) {
            continue;
        }
        path.push_back({start, 0});
        while (!path.empty()) {
            const Node node = path.back().node;
            if (path.back().next == 0) {
                order[node] = low[node] = visited++;
                open.push_back(node);
                is_open[node] = true;
            }
            if (path.back().next < graph.count(node)) {
                const Node other = graph.referred(node, path.back().next++);
                if (order[other] == kNone) {
                    path.push_back({other, 0});
                } else if (is_open[other]) {
                    low[node] = std::min(low[node], order[other]);
                }
                continue;
            }
            path.pop_back();
            if (!path.empty()) {
                low[path.back().node] = std::min(low[path.back().node], low[node]);
            }
            if (low[node] != order[node]) {
                continue;
            }
            bool is_cycle = open.back() != node;
            for (std::size_t number = 0; !is_cycle && number < graph.count(node); ++number) {
                is_cycle = graph.referred(node, number) == node;
            }
            Node member = kNone;
            do {
                member = open.back();
                open.pop_back();
                is_open[member] = false;
                component[member] = is_cycle ? node : kNone;
            } while (member != node);
        }
    }
    return component;
}

PyObject* list_of(const Unreached& graph, const std::vector<Node>& nodes) {
    PyObject* list = PyList_New(0);
    for (const Node node : nodes) {
        if (list != nullptr && PyList_Append(list, graph.object(node)) != 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

// The shortest way from an object of a cycle back to itself.
std::vector<Node> shortest_cycle(const Unreached& graph, const std::vector<Node>& component, Node start) {
    std::vector<Node> queue{start};
    std::vector<Node> parent(graph.size(), kNone);
    for (std::size_t at = 0; at < queue.size(); ++at) {
        const Node node = queue[at];
        for (std::size_t number = 0; number < graph.count(node); ++number) {
            const Node other = graph.referred(node, number);
            if (other == start) {
                std::vector<Node> way{start};
                for (Node back = node; back != start; back = parent[back]) {
                    way.push_back(back);
                }
                way.push_back(start);
                std::reverse(way.begin(), way.end());
                return way;
            }
            if (component[other] == component[start] && parent[other] == kNone) {
                parent[other] = node;
                queue.push_back(other);
            }
        }
    }
    return {start};
}

bool append_found(const Unreached& graph, const std::vector<Node>& path, const std::vector<Node>& cycle,
                  PyObject* found) {
    PyObject* pair = Py_BuildValue("(NN)", list_of(graph, path), list_of(graph, cycle));
    const bool is_done = pair != nullptr && PyList_Append(found, pair) == 0;
    Py_XDECREF(pair);
    return is_done;
}

}  // namespace

bool append_cycles(const Wanted& wanted, const Met& reached, PyObject* rest, Deadline& deadline, PyObject* found) {
    Unreached graph(wanted, reached, rest);
    if (!graph.read_references(deadline)) {
        return true;
    }
    const std::vector<Node> component = cycles_of(graph);
    // From all objects in cycles at once, the oldest first: the shortest way to each object, and from which one.
    std::vector<Node> queue;
    std::vector<Node> parent(graph.size(), kNone);
    std::vector<bool> is_met(graph.size(), false);
    for (Node node = 0; node < graph.size(); ++node) {
        if (component[node] != kNone) {
            queue.push_back(node);
            is_met[node] = true;
        }
    }
    std::vector<Node> known_start;
    std::vector<std::vector<Node>> known_cycle;
    for (std::size_t at = 0; at < queue.size() && !deadline.is_over(); ++at) {
        const Node node = queue[at];
        for (std::size_t number = 0; number < graph.count(node); ++number) {
            const Node other = graph.referred(node, number);
            if (!is_met[other]) {
                is_met[other] = true;
                parent[other] = node;
                queue.push_back(other);
            }
        }
        PyObject* object = graph.object(node);
        if (!wanted.has_memory(object) || !wanted.is_wanted(object)) {
            continue;
        }
        std::vector<Node> path;
        for (Node back = node; back != kNone; back = parent[back]) {
            path.push_back(back);
        }
        std::reverse(path.begin(), path.end());
        const auto known = std::find(known_start.begin(), known_start.end(), path.front());
        const auto place = static_cast<std::size_t>(known - known_start.begin());
        if (known == known_start.end()) {
            known_start.push_back(path.front());
            known_cycle.push_back(shortest_cycle(graph, component, path.front()));
        }
        if (!append_found(graph, path, known_cycle[place], found)) {
            return false;
        }
    }
    return true;
}

}  // namespace msmemscope
