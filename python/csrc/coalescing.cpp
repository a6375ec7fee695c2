/* Batches: what a thread calls between startCoalescing() and endCoalescing() shares one work and starts together. */
#include "process_group.h"

namespace plait_torch {

using c10d::OpType;

ProcessGroupPlait::Batch *ProcessGroupPlait::open_batch()
{
    if (batch_count_ == 0)
        return nullptr;
    std::lock_guard<std::mutex> lock(batch_mutex_);
    auto found = batches_.find(std::this_thread::get_id());
    return found != batches_.end() ? &found->second : nullptr; /* only this thread removes it */
}

void ProcessGroupPlait::startCoalescing()
{
    begin_batch(OpType::COALESCED, "plait:coalesced", {});
}

void ProcessGroupPlait::begin_batch(OpType type, const char *title, const Tensors &inputs)
{
    if (open_batch() != nullptr) { /* an exception went past the end of the former one, most likely */
        size_t count = take_batch().calls.size();
        if (count > 0)
            TORCH_WARN("plait: ", count, " calls of a batch that was never ended on ", *home_->place, " are dropped");
    }
    Batch batch;
    batch.work = make_work(type, title, inputs);
    std::lock_guard<std::mutex> lock(batch_mutex_);
    batches_[std::this_thread::get_id()] = std::move(batch);
    batch_count_ = batches_.size();
}

ProcessGroupPlait::Batch ProcessGroupPlait::take_batch()
{
    std::lock_guard<std::mutex> lock(batch_mutex_);
    auto found = batches_.find(std::this_thread::get_id());
    TORCH_CHECK(found != batches_.end(), "plait: endCoalescing() without startCoalescing() on this thread");
    Batch batch = std::move(found->second);
    batches_.erase(found);
    batch_count_ = batches_.size();
    return batch;
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::endCoalescing()
{
    Batch batch = take_batch();
    if (batch.work->record != nullptr)
        start_recorded(*batch.work, batch.calls);
    else if (!batch.calls.empty())
        start(*batch.work, batch.calls);
    batch.work->watch();
    return batch.work;
}

} // namespace plait_torch
