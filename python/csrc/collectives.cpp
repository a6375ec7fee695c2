/* c10d's operations, each put to plait.h. */
#include <cstring>

#include "process_group.h"

namespace plait_torch {

using c10d::OpType;

/* All-to-all with sizes that differ is made of messages; this tag is theirs alone. */
constexpr int exchange_tag = INT32_MAX;

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

void ProcessGroupPlait::check_list(const Tensors &list, const at::Tensor &like, const char *call) const
{
    TORCH_CHECK_VALUE(list.size() == static_cast<size_t>(size_), "plait: ", call, " needs a list of ", size_,
                      " tensors, one a rank, and got ", list.size());
    check_tensors(list, like.scalar_type(), call);
}

/* ------------------------------------------------------------- collectives */

ProcessGroupPlait::WorkPtr ProcessGroupPlait::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts)
{
    at::Tensor &tensor = single(tensors, "broadcast");
    check_root(opts.rootRank, "broadcast");
    auto work = make_work(OpType::BROADCAST, "plait:broadcast", tensors);
    Span data = span_of(work->staging.in_place(tensor));
    work->outputs = tensors;
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        work->check(plait_broadcast(comm, data.data, data.count, data.type, static_cast<int>(opts.rootRank),
                                    work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts)
{
    at::Tensor &tensor = single(tensors, "all_reduce");
    Reduction reduction = reduction_of(tensor.scalar_type(), opts.reduceOp, "all_reduce");
    auto work = make_work(OpType::ALLREDUCE, "plait:all_reduce", tensors);
    Span data = span_of(work->staging.in_place(tensor), reduction);
    work->outputs = tensors;
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        work->check(plait_allreduce(comm, data.data, data.data, data.count, data.type, reduction.op, work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &)
{
    for (const at::Tensor &tensor : tensors)
        check_tensor(tensor, "all_reduce"); /* says why, for sparse ones */
    TORCH_CHECK_VALUE(false, "plait: all_reduce takes dense tensors; pass tensor.to_dense()");
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allreduce_coalesced(Tensors &tensors,
                                                                  const c10d::AllreduceCoalescedOptions &opts)
{
    std::vector<Reduction> reductions;
    for (const at::Tensor &tensor : tensors) {
        check_tensor(tensor, "all_reduce_coalesced");
        reductions.push_back(reduction_of(tensor.scalar_type(), opts.reduceOp, "all_reduce_coalesced"));
    }
    auto work = make_work(OpType::ALLREDUCE_COALESCED, "plait:all_reduce", tensors);
    work->outputs = tensors;
    std::vector<Span> spans;
    for (size_t i = 0; i < tensors.size(); i++)
        spans.push_back(span_of(work->staging.in_place(tensors[i]), reductions[i]));
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        for (size_t i = 0; i < spans.size(); i++)
            work->check(plait_allreduce(comm, spans[i].data, spans[i].data, spans[i].count, spans[i].type,
                                        reductions[i].op, work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::reduce(Tensors &tensors, const c10d::ReduceOptions &opts)
{
    at::Tensor &tensor = single(tensors, "reduce");
    check_root(opts.rootRank, "reduce");
    Reduction reduction = reduction_of(tensor.scalar_type(), opts.reduceOp, "reduce");
    auto work = make_work(OpType::REDUCE, "plait:reduce", tensors);
    bool is_root = opts.rootRank == rank_;
    Staging &staging = work->staging;
    Span data = span_of(is_root ? staging.in_place(tensor) : staging.input(tensor), reduction);
    work->outputs = tensors;
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        work->check(plait_reduce(comm, data.data, is_root ? data.data : nullptr, data.count, data.type, reduction.op,
                                 static_cast<int>(opts.rootRank), work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::allgather(Lists &outputs, Tensors &inputs,
                                                        const c10d::AllgatherOptions &opts)
{
    at::Tensor &input = single(inputs, "all_gather");
    Tensors &list = single(outputs, "all_gather");
    check_list(list, input, "all_gather");
    at::Tensor &own = list[static_cast<size_t>(rank_)];
    TORCH_CHECK_VALUE(own.numel() == input.numel(), "plait: all_gather was given ", input.numel(),
                      " elements and a list whose place ", rank_, " (this rank's) has ", own.numel());
    auto work = make_work(OpType::ALLGATHER, "plait:all_gather", inputs);
    work->outputs = list;
    if (same_sizes(list)) {
        Span from = span_of(work->staging.input(input));
        Span to = span_of(work->staging.outputs(list));
        return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
            work->check(plait_allgather(comm, from.data, to.data, from.count, from.type, work->slot()));
        });
    }
    /* Sizes differ: each rank broadcasts its own. */
    if (!own.is_alias_of(input))
        Staging::copy(own, work->staging.input(input));
    std::vector<Span> spans;
    for (at::Tensor &output : list)
        spans.push_back(span_of(work->staging.in_place(output)));
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        for (int root = 0; root < size_; root++) {
            Span &span = spans[static_cast<size_t>(root)];
            work->check(plait_broadcast(comm, span.data, span.count, span.type, root, work->slot()));
        }
    });
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
    for (size_t i = 0; i < inputs.size(); i++)
        check_blocks(outputs[i], inputs[i], "all_gather_into_tensor");
    auto work = make_work(OpType::_ALLGATHER_BASE, "plait:all_gather", inputs);
    work->outputs = outputs;
    std::vector<std::pair<Span, Span>> spans;
    for (size_t i = 0; i < inputs.size(); i++)
        spans.emplace_back(span_of(work->staging.input(inputs[i])), span_of(work->staging.output(outputs[i])));
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        for (auto &[from, to] : spans)
            work->check(plait_allgather(comm, from.data, to.data, from.count, from.type, work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::gather(Lists &outputs, Tensors &inputs, const c10d::GatherOptions &opts)
{
    at::Tensor &input = single(inputs, "gather");
    check_root(opts.rootRank, "gather");
    bool is_root = opts.rootRank == rank_;
    TORCH_CHECK_VALUE(is_root || outputs.empty(), "plait: gather takes a list on the root only (rank ", opts.rootRank,
                      ") and this is rank ", rank_);
    if (is_root) {
        Tensors &list = single(outputs, "gather");
        check_list(list, input, "gather");
        TORCH_CHECK_VALUE(same_sizes(list) && list[0].numel() == input.numel(), "plait: gather needs tensors of ",
                          input.numel(), " elements, as this rank gives, from every rank");
    }
    auto work = make_work(OpType::GATHER, "plait:gather", inputs);
    Span from = span_of(work->staging.input(input)), to;
    if (is_root) {
        work->outputs = outputs[0];
        to = span_of(work->staging.outputs(outputs[0]));
    }
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        work->check(plait_gather(comm, from.data, to.data, from.count, from.type, static_cast<int>(opts.rootRank),
                                 work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::scatter(Tensors &outputs, Lists &inputs,
                                                      const c10d::ScatterOptions &opts)
{
    at::Tensor &output = single(outputs, "scatter");
    check_root(opts.rootRank, "scatter");
    bool is_root = opts.rootRank == rank_;
    TORCH_CHECK_VALUE(is_root || inputs.empty(), "plait: scatter takes a list on the root only (rank ", opts.rootRank,
                      ") and this is rank ", rank_);
    if (is_root) {
        Tensors &list = single(inputs, "scatter");
        check_list(list, output, "scatter");
        TORCH_CHECK_VALUE(same_sizes(list) && list[0].numel() == output.numel(), "plait: scatter needs tensors of ",
                          output.numel(), " elements, as this rank takes, for every rank");
    }
    auto work = make_work(OpType::SCATTER, "plait:scatter", is_root ? inputs[0] : outputs);
    work->outputs = outputs;
    Span from, to = span_of(work->staging.output(output));
    if (is_root)
        from = span_of(work->staging.inputs(inputs[0]));
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        work->check(plait_scatter(comm, from.data, to.data, to.count, to.type, static_cast<int>(opts.rootRank),
                                  work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::reduce_scatter(Tensors &outputs, Lists &inputs,
                                                             const c10d::ReduceScatterOptions &opts)
{
    at::Tensor &output = single(outputs, "reduce_scatter");
    Tensors &list = single(inputs, "reduce_scatter");
    check_list(list, output, "reduce_scatter");
    int64_t own = list[static_cast<size_t>(rank_)].numel();
    TORCH_CHECK_VALUE(own == output.numel(), "plait: reduce_scatter has an output of ", output.numel(),
                      " elements and a list whose place ", rank_, " (this rank's) has ", own);
    Reduction reduction = reduction_of(output.scalar_type(), opts.reduceOp, "reduce_scatter");
    auto work = make_work(OpType::REDUCE_SCATTER, "plait:reduce_scatter", list);
    work->outputs = outputs;
    Span to = span_of(work->staging.output(output), reduction);
    if (same_sizes(list)) {
        Span from = span_of(work->staging.inputs(list), reduction);
        return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
            work->check(plait_reduce_scatter(comm, from.data, to.data, to.count, to.type, reduction.op,
                                             work->slot()));
        });
    }
    /* Sizes differ: each block is reduced to its rank. */
    std::vector<Span> spans;
    for (at::Tensor &input : list)
        spans.push_back(span_of(work->staging.input(input), reduction));
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        for (int root = 0; root < size_; root++) {
            Span &span = spans[static_cast<size_t>(root)];
            work->check(plait_reduce(comm, span.data, root == rank_ ? to.data : nullptr, span.count, span.type,
                                     reduction.op, root, work->slot()));
        }
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                                   const c10d::ReduceScatterOptions &opts)
{
    Tensors outputs = {output}, inputs = {input};
    return reduce_scatter_tensor_coalesced(outputs, inputs, opts);
}

ProcessGroupPlait::WorkPtr
ProcessGroupPlait::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                   const c10d::ReduceScatterOptions &opts)
{
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "plait: reduce_scatter_tensor got ", inputs.size(),
                      " inputs and ", outputs.size(), " outputs");
    std::vector<Reduction> reductions;
    for (size_t i = 0; i < inputs.size(); i++) {
        check_blocks(inputs[i], outputs[i], "reduce_scatter_tensor");
        reductions.push_back(reduction_of(inputs[i].scalar_type(), opts.reduceOp, "reduce_scatter_tensor"));
    }
    auto work = make_work(OpType::_REDUCE_SCATTER_BASE, "plait:reduce_scatter", inputs);
    work->outputs = outputs;
    std::vector<std::pair<Span, Span>> spans;
    for (size_t i = 0; i < inputs.size(); i++)
        spans.emplace_back(span_of(work->staging.input(inputs[i]), reductions[i]),
                           span_of(work->staging.output(outputs[i]), reductions[i]));
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        for (size_t i = 0; i < spans.size(); i++) {
            auto &[from, to] = spans[i];
            work->check(plait_reduce_scatter(comm, from.data, to.data, to.count, to.type, reductions[i].op,
                                             work->slot()));
        }
    });
}

/* -------------------------------------------------------------- all-to-all */

/* Sends sends[r] to rank r and receives recvs[r] from it, all at once; sizes may differ. */
void ProcessGroupPlait::exchange(WorkPlait &work, plait_comm *comm, const std::vector<Span> &sends,
                                 const std::vector<Span> &recvs)
{
    for (int distance = 1; distance < size_; distance++) {
        int from = (rank_ - distance + size_) % size_;
        const Span &span = recvs[static_cast<size_t>(from)];
        work.check(plait_recv(comm, span.data, span.count, span.type, from, exchange_tag, nullptr, nullptr,
                              work.slot()));
        work.expect(span.count);
    }
    for (int distance = 1; distance < size_; distance++) {
        int to = (rank_ + distance) % size_;
        const Span &span = sends[static_cast<size_t>(to)];
        work.check(plait_send(comm, span.data, span.count, span.type, to, exchange_tag, work.slot()));
    }
    const Span &own = sends[static_cast<size_t>(rank_)];
    if (own.count > 0)
        std::memmove(recvs[static_cast<size_t>(rank_)].data, own.data, own.count * plait_type_size(own.type));
}

/* The blocks of a plain tensor whose rows are dealt out by `splits`; none means evenly. */
static std::vector<Span> row_blocks(const at::Tensor &plain, const at::Tensor &shaped,
                                    const std::vector<int64_t> &splits, int ranks, const char *what)
{
    TORCH_CHECK_VALUE(shaped.dim() > 0, "plait: all_to_all_single deals out rows and the ", what, " is 0-dimensional");
    int64_t rows = shaped.size(0);
    TORCH_CHECK_VALUE(!splits.empty() || rows % ranks == 0, "plait: all_to_all_single can't deal ", rows,
                      " rows of the ", what, " evenly to ", ranks, " ranks; give split sizes");
    TORCH_CHECK_VALUE(splits.empty() || splits.size() == static_cast<size_t>(ranks), "plait: all_to_all_single got ",
                      splits.size(), " ", what, " split sizes for ", ranks, " ranks");
    Span whole = span_of(plain);
    size_t row = rows > 0 ? whole.count / static_cast<size_t>(rows) : 0;
    std::vector<Span> blocks;
    int64_t first = 0;
    for (int rank = 0; rank < ranks; rank++) {
        int64_t count = splits.empty() ? rows / ranks : splits[static_cast<size_t>(rank)];
        TORCH_CHECK_VALUE(count >= 0 && count <= rows - first, "plait: the ", what,
                          " split sizes of all_to_all_single must be 0 or more and sum to its ", rows, " rows");
        blocks.push_back(span_part(whole, static_cast<size_t>(first) * row, static_cast<size_t>(count) * row));
        first += count;
    }
    TORCH_CHECK_VALUE(first == rows, "plait: the ", what, " split sizes of all_to_all_single sum to ", first,
                      " and it has ", rows, " rows");
    return blocks;
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::alltoall_base(at::Tensor &output, at::Tensor &input,
                                                            std::vector<int64_t> &output_splits,
                                                            std::vector<int64_t> &input_splits,
                                                            const c10d::AllToAllOptions &opts)
{
    check_tensor(input, "all_to_all_single");
    check_tensors({output}, input.scalar_type(), "all_to_all_single");
    auto work = make_work(OpType::ALLTOALL_BASE, "plait:all_to_all", {input});
    work->outputs = {output};
    at::Tensor from = work->staging.input(input), to = work->staging.output(output);
    std::vector<Span> sends = row_blocks(from, input, input_splits, size_, "input");
    std::vector<Span> recvs = row_blocks(to, output, output_splits, size_, "output");
    bool even = input_splits.empty() && output_splits.empty(); /* then it is on every rank */
    TORCH_CHECK_VALUE(!even || input.numel() == output.numel(), "plait: all_to_all_single without split sizes needs "
                      "tensors of one size and got ", input.numel(), " and ", output.numel(), " elements");
    return run(work, opts.timeout, opts.asyncOp, [&](plait_comm *comm) {
        if (even)
            work->check(plait_alltoall(comm, sends[0].data, recvs[0].data, sends[0].count, sends[0].type,
                                       work->slot()));
        else
            exchange(*work, comm, sends, recvs);
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::alltoall(Tensors &outputs, Tensors &inputs,
                                                       const c10d::AllToAllOptions &opts)
{
    TORCH_CHECK_VALUE(!inputs.empty(), "plait: all_to_all needs a list of ", size_, " tensors, one a rank, and got 0");
    check_list(inputs, inputs[0], "all_to_all");
    check_list(outputs, inputs[0], "all_to_all");
    size_t own = static_cast<size_t>(rank_);
    TORCH_CHECK_VALUE(inputs[own].numel() == outputs[own].numel(), "plait: all_to_all has ", inputs[own].numel(),
                      " elements for this rank itself and room for ", outputs[own].numel());
    auto work = make_work(OpType::ALLTOALL, "plait:all_to_all", inputs);
    work->outputs = outputs;
    std::vector<Span> sends, recvs;
    for (const at::Tensor &input : inputs)
        sends.push_back(span_of(work->staging.input(input)));
    for (const at::Tensor &output : outputs)
        recvs.push_back(span_of(work->staging.output(output)));
    return run(work, opts.timeout, opts.asyncOp,
               [&](plait_comm *comm) { exchange(*work, comm, sends, recvs); });
}

/* ---------------------------------------------------------- point to point */

static void check_tag(int tag, const char *call)
{
    TORCH_CHECK_VALUE(tag >= 0 && tag != exchange_tag, "plait: ", call, " takes tags from 0 to ", exchange_tag - 1,
                      " and got ", tag);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::send(Tensors &tensors, int peer, int tag)
{
    at::Tensor &tensor = single(tensors, "send");
    check_tag(tag, "send");
    auto work = make_work(OpType::SEND, "plait:send", tensors, Kind::message);
    Span data = span_of(work->staging.input(tensor));
    return run(work, c10d::kUnsetTimeout, true, [&](plait_comm *comm) {
        work->check(plait_send(comm, data.data, data.count, data.type, peer, tag, work->slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::recv(Tensors &tensors, int peer, int tag)
{
    at::Tensor &tensor = single(tensors, "recv");
    check_tag(tag, "recv");
    bool any = peer == PLAIT_ANY_SOURCE;
    auto work = make_work(any ? OpType::RECVANYSOURCE : OpType::RECV, "plait:recv", tensors, Kind::message);
    Span data = span_of(work->staging.output(tensor));
    work->outputs = tensors;
    return run(work, c10d::kUnsetTimeout, true, [&](plait_comm *comm) {
        work->check(plait_recv(comm, data.data, data.count, data.type, peer, tag, nullptr, nullptr, work->slot()));
        work->expect(data.count);
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::recvAnysource(Tensors &tensors, int tag)
{
    return recv(tensors, PLAIT_ANY_SOURCE, tag);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::barrier(const c10d::BarrierOptions &opts)
{
    auto work = make_work(OpType::BARRIER, "plait:barrier", {});
    return run(work, opts.timeout, opts.asyncOp,
               [&](plait_comm *comm) { work->check(plait_barrier(comm, work->slot())); });
}

void ProcessGroupPlait::monitoredBarrier(const c10d::BarrierOptions &opts, bool /*wait_all_ranks*/)
{
    /* A barrier that times out names who is missing in any case. */
    barrier(opts)->wait();
}

} // namespace plait_torch
