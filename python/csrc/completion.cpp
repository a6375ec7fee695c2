#include "completion.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <unistd.h>

#include "work.h"

namespace plait_torch {

/* Threads that stay without work, beside the one that does all. */
static constexpr size_t SPARE = 1;
/* So long nothing gets done before it is taken for stuck. */
static constexpr std::chrono::milliseconds PATIENCE(1);

/*
 * Threads on which python may run. One does all, in the order in which it comes, for they would only get into each
 * other's way with the GIL; another one is there to spare. It steps in when a continuation is stuck: it may wait for
 * a further work's future, as PowerSGD's do.
 */
class Completion {
  public:
    void push(c10::intrusive_ptr<WorkPlait> work)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(std::move(work));
        if (running_ == 0)
            start();
        wake_.notify_one();
    }

    void stop()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
        /* Bounded: a continuation may be stuck for good, and the process wants to end. */
        ended_.wait_for(lock, std::chrono::seconds(2), [this] { return running_ == 0; });
        stopping_ = false;
    }

    pid_t pid = getpid();

  private:
    void start()
    {
        std::thread([this] { run(); }).detach();
        running_++;
    }

    void run()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        while (running_ - busy_ <= SPARE + 1) {
            wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty())
                break;
            if (busy_ == 0 || is_stuck(lock))
                complete_first(lock);
        }
        running_--;
        ended_.notify_all();
    }

    /* Waits a little; true if there is work still and all that are at work have got nothing done. */
    bool is_stuck(std::unique_lock<std::mutex> &lock)
    {
        const size_t done = done_;
        wake_.wait_for(lock, PATIENCE, [&] { return done_ != done || queue_.empty(); });
        return done_ == done && !queue_.empty();
    }

    void complete_first(std::unique_lock<std::mutex> &lock)
    {
        c10::intrusive_ptr<WorkPlait> work = std::move(queue_.front());
        queue_.pop_front();
        busy_++;
        if (busy_ == running_)
            start();
        lock.unlock();
        work->complete();
        work.reset();
        lock.lock();
        busy_--;
        done_++;
    }

    std::mutex mutex_;
    std::condition_variable wake_, ended_;
    std::deque<c10::intrusive_ptr<WorkPlait>> queue_;
    size_t running_ = 0; /* threads */
    size_t busy_ = 0;    /* those of them that complete a work */
    size_t done_ = 0;
    bool stopping_ = false;
};

/* Never freed: its threads may outlive main(). A forked child has none of them and starts afresh. */
static Completion &completion()
{
    static std::mutex mutex;
    static Completion *current = nullptr;
    std::lock_guard<std::mutex> lock(mutex);
    if (current == nullptr || current->pid != getpid())
        current = new Completion;
    return *current;
}

void complete_later(c10::intrusive_ptr<WorkPlait> work)
{
    completion().push(std::move(work));
}

void stop_completion()
{
    completion().stop();
}

} // namespace plait_torch
