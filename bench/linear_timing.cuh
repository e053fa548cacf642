/* linear_timing.cuh - timing of GEMMs for bench_linear: nodes of a graph, after warm-up replays. */
#ifndef YK_BENCH_LINEAR_TIMING_CUH
#define YK_BENCH_LINEAR_TIMING_CUH

#include <algorithm>
#include <vector>

#include "bench/check.cuh"

namespace linear {

using bench::check;

struct timing {
  double median_us = 0, low_us = 0, high_us = 0;
};

constexpr double WARM_UP_MS = 60; /* duration of replays before the first that counts: clocks rise with load */

/* Time of one node of a graph that launch(i) fills with n nodes. */
template <typename Launch> timing time_graph(cudaStream_t stream, int n, int repeats, double warm_up_ms, Launch launch)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaEvent_t from, to;
  check(cudaEventCreate(&from), "event");
  check(cudaEventCreate(&to), "event");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < n; i++) launch(i);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  std::vector<double> us;
  for (double warm_ms = 0; us.size() < size_t(repeats);) {
    check(cudaEventRecord(from, stream), "event");
    check(cudaGraphLaunch(exec, stream), "graph");
    check(cudaEventRecord(to, stream), "event");
    check(cudaEventSynchronize(to), "graph");
    float ms;
    check(cudaEventElapsedTime(&ms, from, to), "event");
    if (warm_ms < warm_up_ms)
      warm_ms += ms;
    else
      us.push_back(ms * 1e3 / n);
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us.front(), us.back()};
}

} // namespace linear

#endif
