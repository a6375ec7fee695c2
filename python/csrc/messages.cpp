/* c10d's messages from rank to rank, put to plait.h. */
#include "messages.h"

#include "process_group.h"

namespace plait_torch {

using c10d::OpType;

static void check_tag(int tag, const char *call)
{
    TORCH_CHECK_VALUE(tag >= 0 && tag != barrier_tag, "plait: ", call, " takes tags from 0 to ", barrier_tag - 1,
                      " and got ", tag);
}

void ProcessGroupPlait::check_peer(int peer, const char *call) const
{
    TORCH_CHECK_VALUE(peer >= 0 && peer < size_, "plait: ", call, " names rank ", peer,
                      " and the group has ranks 0 to ", size_ - 1);
    TORCH_CHECK_VALUE(peer != rank_, "plait: ", call, " names rank ", peer,
                      ", which is this rank itself; copy instead");
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::send(Tensors &tensors, int peer, int tag)
{
    single(tensors, "send");
    check_peer(peer, "send");
    check_tag(tag, "send");
    return send_tagged(tensors, peer, tag);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::recv(Tensors &tensors, int peer, int tag)
{
    check_output(single(tensors, "recv"), "recv");
    check_peer(peer, "recv");
    check_tag(tag, "recv");
    return recv_tagged(tensors, peer, tag, c10d::kUnsetTimeout);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::recvAnysource(Tensors &tensors, int tag)
{
    check_output(single(tensors, "recv"), "recv");
    check_tag(tag, "recv");
    return recv_tagged(tensors, PLAIT_ANY_SOURCE, tag, c10d::kUnsetTimeout);
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::send_tagged(const Tensors &tensors, int peer, int tag)
{
    auto work = make_work(OpType::SEND, "plait:send", tensors, Kind::message);
    Span data = span_of(work->staging.input(tensors[0]));
    return run(work, c10d::kUnsetTimeout, true, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_send(comm, data.data, data.count, data.type, peer, tag, started.slot()));
    });
}

ProcessGroupPlait::WorkPtr ProcessGroupPlait::recv_tagged(const Tensors &tensors, int peer, int tag,
                                                          milliseconds timeout)
{
    bool any = peer == PLAIT_ANY_SOURCE;
    auto work = make_work(any ? OpType::RECVANYSOURCE : OpType::RECV, any ? "plait:recvAnySource" : "plait:recv",
                          tensors, Kind::message);
    Span data = span_of(work->staging.output(tensors[0]));
    work->outputs.push_back(tensors[0]);
    return run(work, timeout, true, [=](plait_comm *comm, WorkPlait &started) {
        started.check(plait_recv(comm, data.data, data.count, data.type, peer, tag, nullptr, nullptr,
                                 started.slot()));
        started.expect(data.count);
    });
}

} // namespace plait_torch
