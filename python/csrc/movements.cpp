/* c10d's collectives that only move, put to plait.h; and the checks of lists and blocks that all share. */
#include "process_group.h"

namespace plait_torch {

using c10d::OpType;

/* ---------------------------------------------------------------- checking */

void ProcessGroupPlait::check_root(int64_t root, const char *call) const
{
    TORCH_CHECK_VALUE(root >= 0 && root < size_, "plait: ", call, " has root ", root, " and the group has ranks 0 to ",
                      size_ - 1);
}

void ProcessGroupPlait::check_blocks(const at::Tensor &whole, const at::Tensor &block, const char *call) const
{
    check_tensor(whole, call);
    check_tensors({block}, whole.scalar_type(), call);
    TORCH_CHECK_VALUE(whole.numel() == block.numel() * size_, "plait: ", call, " needs one tensor ", size_,
                      " times (the ranks) as long as the other and got ", whole.numel(), " and ", block.numel(),
                      " elements");
}

void ProcessGroupPlait::check_list(const Tensors &list, const char *call) const
{
    TORCH_CHECK_VALUE(list.size() == static_cast<size_t>(size_), "plait: ", call, " needs a list of ", size_,
                      " tensors, one a rank, and got ", list.size());
}

/* On the root: the one list, of a tensor for each rank, each as long as `own`. Elsewhere there must be none. */
static Tensors *roots_list(Lists &lists, bool is_root, int64_t root, const at::Tensor &own, const char *call)
{
    /* The debug wrapper and some callers pass one empty list where they have none. */
    bool none = lists.empty() || (lists.size() == 1 && lists[0].empty());
    TORCH_CHECK_VALUE(is_root || none, "plait: ", call, " takes a list on the root only, which is rank ", root);
    if (!is_root)
        return nullptr;
    Tensors &list = single(lists, call);
    check_tensors(list, own.scalar_type(), call);
    for (const at::Tensor &tensor : list)
        TORCH_CHECK_VALUE(tensor.numel() == own.numel(), "plait: ", call, " needs tensors of one size and got ",
                          own.numel(), " and ", tensor.numel(), " elements");
    return &list;
}

/* -------------------------------------------------------------- collectives */

ProcessGroupPlait::WorkPtr ProcessGroupPlait::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    at::Tensor &tensor = single(tensors, "broadcast");
    check_root(opts.rootRank, "broadcast");
    bool is_root = opts.rootRank == rank_;
    if (!is_root)
        check_output(tensor, "broadcast");
    auto work = make_work(OpType::BROADCAST, "plait:broadcast", tensors);
    Span data = span_of(is_root ? work->staging.input(tensor) : work->staging.output(tensor));
    work->outputs.push_back(tensor);
    int root = static_cast<int>(opts.rootRank);
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_broadcast(comm, data.data, data.count, data.type, root, started.slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allgather(Lists &outputs, Tensors &inputs,
                                                        const c10d::AllgatherOptions &opts)
{
    at::Tensor &input = single(inputs, "all_gather");
    Tensors &list = single(outputs, "all_gather");
    check_list(list, "all_gather");
    check_outputs(list, input.scalar_type(), "all_gather");
    at::Tensor &own = list[static_cast<size_t>(rank_)];
    TORCH_CHECK_VALUE(own.numel() == input.numel(), "plait: all_gather was given ", input.numel(),
                      " elements and a list whose place ", rank_, " (this rank's) has ", own.numel());
    auto work = make_work(OpType::ALLGATHER, "plait:all_gather", inputs);
    work->outputs.insert(work->outputs.end(), list.begin(), list.end());
    int64_t before = 0; /* bytes of the blocks of lower ranks */
    for (int rank = 0; rank < rank_; rank++)
        before += static_cast<int64_t>(list[static_cast<size_t>(rank)].nbytes());
    at::Tensor target = work->staging.outputs(list);
    Span from = span_of(work->staging.apart(work->staging.input(input), target, before)), to = span_of(target);
    std::vector<size_t> counts = counts_of(list);
    bool even = same_sizes(list);
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(even ? plait_allgather(comm, from.data, to.data, from.count, from.type, started.slot())
                           : plait_allgatherv(comm, from.data, from.count, to.data, counts.data(), nullptr, from.type,
                                              started.slot()));
    });
}

/* outputs[rank][i] is what `rank` gives as inputs[i]. */
ProcessGroupPlait::WorkPtr ProcessGroupPlait::allgather_coalesced(Lists &outputs, Tensors &inputs,
                                                                  const c10d::AllgatherOptions &opts)
{
    TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_), "plait: all_gather_coalesced needs ", size_,
                      " lists, one a rank, and got ", outputs.size());
    for (const Tensors &list : outputs)
        TORCH_CHECK_VALUE(list.size() == inputs.size(), "plait: all_gather_coalesced needs lists of ", inputs.size(),
                          " tensors, as many as there are inputs, and got one of ", list.size());
    begin_batch(OpType::ALLGATHER_COALESCED, "plait:all_gather", inputs);
    try {
        for (size_t i = 0; i < inputs.size(); i++) {
            Lists parts(1);
            for (const Tensors &list : outputs)
                parts[0].push_back(list[i]);
            Tensors input = {inputs[i]};
            allgather(parts, input, opts);
        }
    } catch (...) {
        take_batch();
        throw;
    }
    WorkPtr work = endCoalescing();
    if (!opts.asyncOp)
        work->wait();
    return work;
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::_allgather_base(at::Tensor &output, at::Tensor &input,
                                                              const c10d::AllgatherOptions &opts)
{
    Tensors outputs = {output}, inputs = {input};
    return allgather_into_tensor_coalesced(outputs, inputs, opts);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                                              const c10d::AllgatherOptions &opts)
{
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "plait: all_gather_into_tensor got ", inputs.size(),
                      " inputs and ", outputs.size(), " outputs");
    for (size_t i = 0; i < inputs.size(); i++) {
        check_blocks(outputs[i], inputs[i], "all_gather_into_tensor");
        check_output(outputs[i], "all_gather_into_tensor");
    }
    auto work = make_work(OpType::_ALLGATHER_BASE, "plait:all_gather", inputs);
    std::vector<std::pair<Span, Span>> spans; /* from, to */
    for (size_t i = 0; i < inputs.size(); i++) {
        at::Tensor to = work->staging.output(outputs[i]), from = work->staging.input(inputs[i]);
        from = work->staging.apart(from, to, rank_ * static_cast<int64_t>(from.nbytes()));
        spans.emplace_back(span_of(from), span_of(to));
        work->outputs.push_back(outputs[i]);
    }
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        auto start_one = [&](const std::pair<Span, Span> &pair) {
            const Span &from = pair.first;
            started.check(plait_allgather(comm, from.data, pair.second.data, from.count, from.type, started.slot()));
        };
        if (spans.size() == 1)
            return start_one(spans[0]);
        StartedTogether together;
        for (const auto &pair : spans)
            start_one(pair);
        started.check_together(together.end());
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &opts)
{
    at::Tensor &input = single(inputs, "gather");
    check_root(opts.rootRank, "gather");
    Tensors *list = roots_list(outputs, opts.rootRank == rank_, opts.rootRank, input, "gather");
    if (list != nullptr) {
        check_list(*list, "gather");
        check_outputs(*list, input.scalar_type(), "gather");
    }
    auto work = make_work(OpType::GATHER, "plait:gather", inputs);
    at::Tensor source = work->staging.input(input);
    Span to;
    if (list != nullptr) {
        work->outputs.insert(work->outputs.end(), list->begin(), list->end());
        at::Tensor target = work->staging.outputs(*list);
        source = work->staging.apart(source, target, rank_ * static_cast<int64_t>(source.nbytes()));
        to = span_of(target);
    }
    Span from = span_of(source);
    int root = static_cast<int>(opts.rootRank);
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_gather(comm, from.data, to.data, from.count, from.type, root, started.slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::gather_single(at::Tensor &output, at::Tensor &input,
                                                            const c10d::GatherOptions &opts)
{
    Lists outputs;
    if (opts.rootRank == rank_) {
        check_blocks(output, input, "gather_single");
        check_output(output, "gather_single");
        TORCH_CHECK_VALUE(output.is_contiguous(), "plait: gather_single needs a contiguous output");
        at::Tensor flat = output.view({-1});
        outputs.push_back(flat.tensor_split(size_));
    }
    Tensors inputs = {input};
    return gather(outputs, inputs, opts);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::scatter(Tensors &outputs, Lists &inputs,
                                                      const c10d::ScatterOptions &opts)
{
    at::Tensor &output = single(outputs, "scatter");
    check_root(opts.rootRank, "scatter");
    check_output(output, "scatter");
    Tensors *list = roots_list(inputs, opts.rootRank == rank_, opts.rootRank, output, "scatter");
    if (list != nullptr)
        check_list(*list, "scatter");
    auto work = make_work(OpType::SCATTER, "plait:scatter", list != nullptr ? *list : Tensors());
    work->outputs.push_back(output);
    at::Tensor target = work->staging.output(output);
    Span from, to = span_of(target);
    if (list != nullptr)
        from = span_of(work->staging.apart(work->staging.inputs(*list), target,
                                           -rank_ * static_cast<int64_t>(target.nbytes())));
    int root = static_cast<int>(opts.rootRank);
    return run(work, opts.timeout, opts.asyncOp, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_scatter(comm, from.data, to.data, to.count, to.type, root, started.slot()));
    });
}

} // namespace plait_torch
