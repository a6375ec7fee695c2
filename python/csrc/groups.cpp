#include "process_group.h"

#include <algorithm>

#include "world.h"

namespace plait_torch {

/* Members agree on a tag because they agree on the name (FNV-1a, folded to 31 bits). */
static int tag_of(const std::string &name)
{
    uint64_t hash = 14695981039346656037u;
    for (unsigned char letter : name)
        hash = (hash ^ letter) * 1099511628211u;
    return static_cast<int>((hash ^ (hash >> 31)) & INT32_MAX);
}

c10::intrusive_ptr<ProcessGroupPlait> ProcessGroupPlait::group(const std::vector<int> &ranks, milliseconds timeout,
                                                               const std::string &name)
{
    plait_comm_options options = {};
    options.struct_size = sizeof options;
    options.timeout_ms = deadline_ms(timeout);
    options.name = name.c_str();

    std::lock_guard<std::mutex> lock(call_mutex_);
    plait_comm *comm = nullptr;
    plait_status status =
        plait_comm_group(home_->comm, ranks.data(), static_cast<int>(ranks.size()), tag_of(name), &options, &comm);
    if (status != PLAIT_OK)
        throw_failure(status, nullptr, "plait:new_group", home_->place);
    return c10::make_intrusive<ProcessGroupPlait>(world_, comm, true, timeout, name);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupPlait::split(const c10::intrusive_ptr<c10d::Store> & /*store*/,
                                                           const std::vector<int> &ranks,
                                                           const c10::intrusive_ptr<Options> &opts)
{
    /* Ranks that are in no group come along with the first one's list. */
    if (std::find(ranks.begin(), ranks.end(), rank_) == ranks.end())
        return nullptr;
    return group(ranks, opts != nullptr ? opts->timeout : options_->timeout,
                 opts != nullptr && !opts->group_name.empty() ? opts->group_name : c10::str(getGroupUid(), ":", ranks));
}

/* Ranks of two groups, or of none, meet in a world of their own, for they may come from different ones. */
c10::intrusive_ptr<c10d::Backend> ProcessGroupPlait::merge(const c10::intrusive_ptr<c10d::Store> &store,
                                                           const c10::intrusive_ptr<Options> &opts, const int &rank,
                                                           const int &size)
{
    return create(store, rank, size, opts != nullptr ? opts->timeout : options_->timeout,
                  opts != nullptr && !opts->group_name.empty() ? opts->group_name : "merged");
}

} // namespace plait_torch
