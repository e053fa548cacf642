/* bench_allreduce.cu - all-reduce over GPUs, one-shot and two-shot by peer-to-peer stores, compared with NCCL; one
 * thread per GPU. A graph of a chain of operations on every rank; the slowest rank's replay divided by the chain's
 * length. Bandwidth, as nccl-tests define it: algbw = bytes / time, busbw = algbw * 2 (n - 1) / n for n ranks.
 * tests/comm/test_comm_nccl_routes.c checks the operations. */
#include <algorithm>
#include <atomic>
#include <random>
#include <string>

#include "bench/allreduce_ranks.cuh"
#include "yoke/process.h"

using namespace allreduce;

namespace {

/* Microseconds of one operation on the slowest rank. */
spread time_chain(machine &m, int n_nodes, const std::function<void(rank_state &)> &op)
{
  const int n_repeats = 15;
  std::vector<std::vector<double>> us(m.ranks.size(), std::vector<double>(n_repeats));
  std::atomic<int> n_waiting{0};
  on_all(m, [&](rank_state &r) {
    op(r); /* once before the capture */
    CUDA_OK(cudaStreamSynchronize(r.stream));
    cudaGraphExec_t exec = capture(r.stream, [&](cudaStream_t) {
      for (int i = 0; i < n_nodes; i++) op(r);
    });
    cudaEvent_t begin, end;
    CUDA_OK(cudaEventCreate(&begin));
    CUDA_OK(cudaEventCreate(&end));
    for (int i = -2; i < n_repeats; i++) {
      const int target = (int)m.ranks.size() * (i + 3);
      n_waiting++;
      while (n_waiting < target) {
      }
      CUDA_OK(cudaEventRecord(begin, r.stream));
      CUDA_OK(cudaGraphLaunch(exec, r.stream));
      CUDA_OK(cudaEventRecord(end, r.stream));
      CUDA_OK(cudaEventSynchronize(end));
      float ms = 0;
      CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
      if (i >= 0) us[r.rank][i] = ms * 1e3 / n_nodes;
    }
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaEventDestroy(begin));
    CUDA_OK(cudaEventDestroy(end));
  });
  for (size_t r = 1; r < us.size(); r++) {
    for (int i = 0; i < n_repeats; i++) us[0][i] = std::max(us[0][i], us[r][i]);
  }
  return spread_of(us[0]);
}

struct operation {
  const char *name;
  bool is_all_reduce; /* a single rank has no bandwidth */
  std::function<void(rank_state &, int rows, int hidden)> run;
};

/* by_size, one, two: groups that choose by size, always one-shot and always two-shot. alone: one group per rank with
 * this rank alone. */
std::vector<operation> operations_of(const machine &m, group &one, group &two, group &by_size,
                                     std::vector<group> &alone)
{
  auto fused = [](group &g) {
    return
        [&g](rank_state &r, int rows, int hidden) { all_reduce_add_norm(g[r.rank], r, rows, hidden, YK_F16, 1e-3f); };
  };
  auto add_norm = [&alone](rank_state &r, int rows, int hidden) {
    all_reduce_add_norm(alone[r.rank][0], r, rows, hidden, YK_F16, 1e-3f);
  };
  std::vector<operation> v = {{"one-shot + add + norm", true, fused(one)}, {"two-shot + add + norm", true, fused(two)}};
  v.push_back({"all-reduce", true, [&by_size](rank_state &r, int rows, int hidden) {
                 yk_err err = YK_ERR_INIT;
                 const int64_t count = static_cast<int64_t>(rows) * hidden;
                 check(yk_p2p_all_reduce(by_size[r.rank], r.y, count, YK_F16, r.stream, &err), err);
               }});
  v.push_back({"add + norm", false, add_norm});
#ifdef YOKE_HAVE_NCCL
  if (m.have_nccl) {
    auto nccl = [](rank_state &r, int rows, int hidden) {
      const ncclResult_t result = ncclAllReduce(r.partial, r.partial, static_cast<size_t>(rows) * hidden, ncclFloat16,
                                                ncclSum, r.nccl, r.stream);
      if (result != ncclSuccess) give_up("NCCL", ncclGetErrorString(result));
    };
    v.push_back({"NCCL", true, nccl});
    v.push_back({"NCCL + add + norm", true, [nccl, add_norm](rank_state &r, int rows, int hidden) {
                   nccl(r, rows, hidden);
                   add_norm(r, rows, hidden);
                 }});
  }
#endif
  (void)m;
  return v;
}

/* Random data for a timing. A chain of all-reduces overflows f16, which does not change its time. */
void fill(machine &m, int64_t n_bytes)
{
  for (rank_state &r : m.ranks) {
    CUDA_OK(cudaSetDevice(r.device));
    fill_random<<<256, 256, 0, r.stream>>>(reinterpret_cast<__half *>(r.w), 8192, 3u);
    for (char *p : {r.partial, r.residual, r.y})
      fill_random<<<256, 256, 0, r.stream>>>(reinterpret_cast<__half *>(p), n_bytes / 2, 5u);
    CUDA_OK(cudaStreamSynchronize(r.stream));
  }
}

/* Prints one line of the table and one case of the JSON. is_first: no comma before the case. */
void report(const operation &op, int n_ranks, int rows, int hidden, const spread &us, FILE *json, bool is_first)
{
  const int64_t n_bytes = static_cast<int64_t>(rows) * hidden * 2;
  const double algbw_gb_s = n_bytes / us.median * 1e-3, busbw_gb_s = algbw_gb_s * 2 * (n_ranks - 1) / n_ranks;
  printf("%9lld %6d %7d  %-22s %9.2f %9.2f %9.2f", static_cast<long long>(n_bytes), rows, hidden, op.name, us.median,
         us.low, us.high);
  if (op.is_all_reduce)
    printf(" %12.2f %12.2f\n", algbw_gb_s, busbw_gb_s);
  else
    printf(" %12s %12s\n", "-", "-");
  if (!json) return;
  fprintf(
      json,
      "%s\n    {\"bytes\": %lld, \"rows\": %d, \"hidden\": %d, \"operation\": \"%s\", \"us\": %.3f, \"us_low\": %.3f, "
      "\"us_high\": %.3f",
      is_first ? "" : ",", static_cast<long long>(n_bytes), rows, hidden, op.name, us.median, us.low, us.high);
  if (op.is_all_reduce) fprintf(json, ", \"algbw_gb_s\": %.3f, \"busbw_gb_s\": %.3f", algbw_gb_s, busbw_gb_s);
  fprintf(json, "}");
}

/* Rows of a mixture of experts: combined in a separate kernel, and by the all-reduce. */
void time_combined(machine &m, group &by_size, FILE *json)
{
  const operation apart = {"combine, all-reduce", true, [&by_size](rank_state &r, int rows, int hidden) {
                             combine(r, rows, hidden, YK_F16);
                             all_reduce_add_norm(by_size[r.rank], r, rows, hidden, YK_F16, 1e-3f);
                           }};
  const operation together = {"combining all-reduce", true, [&by_size](rank_state &r, int rows, int hidden) {
                                combine_and_reduce(by_size[r.rank], r, rows, hidden, YK_F16, 1e-3f);
                              }};
  for (int rows : {2, 16, 64, 128, 256, MOST_COMBINED}) {
    std::mt19937 rng(5);
    std::vector<int32_t> slot_of_choice(static_cast<size_t>(rows) * TOP_K);
    for (size_t i = 0; i < slot_of_choice.size(); i++) slot_of_choice[i] = static_cast<int32_t>(i);
    std::shuffle(slot_of_choice.begin(), slot_of_choice.end(), rng);
    for (rank_state &r : m.ranks) {
      CUDA_OK(cudaSetDevice(r.device));
      fill_random<<<256, 256, 0, r.stream>>>(reinterpret_cast<__half *>(r.slots),
                                             static_cast<int64_t>(rows) * TOP_K * COMBINED_HIDDEN, 5u);
      CUDA_OK(cudaMemcpy(r.slot_of_choice, slot_of_choice.data(), slot_of_choice.size() * 4, cudaMemcpyHostToDevice));
      CUDA_OK(cudaMemset(r.weights, 0x3c, slot_of_choice.size() * 4));
    }
    for (const operation &op : {apart, together}) {
      fill(m, static_cast<int64_t>(rows) * COMBINED_HIDDEN * 2);
      const spread us = time_chain(m, 200, [&](rank_state &r) { op.run(r, rows, COMBINED_HIDDEN); });
      report(op, static_cast<int>(m.ranks.size()), rows, COMBINED_HIDDEN, us, json, false);
    }
  }
}

void time_all(machine &m, FILE *json)
{
  group one = create(m, ALWAYS_ONE_SHOT, 5000), two = create(m, ALWAYS_TWO_SHOT, 5000), by_size = create(m, 0, 5000);
  std::vector<group> alone;
  for (rank_state &r : m.ranks) {
    machine single = {{r}, false};
    alone.push_back(create(single, 0, 5000));
  }
  const std::vector<operation> operations = operations_of(m, one, two, by_size, alone);
  printf("\n%9s %6s %7s  %-22s %9s %9s %9s %12s %12s\n", "size(B)", "rows", "hidden", "operation", "time(us)", "low",
         "high", "algbw(GB/s)", "busbw(GB/s)");
  bool is_first = true;
  for (int64_t kib : {4, 16, 64, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192}) { /* denser near the crossover */
    const int64_t n_bytes = kib << 10;
    const int hidden = n_bytes < 8192 ? 2048 : 4096, rows = static_cast<int>(n_bytes / 2 / hidden);
    for (const operation &op : operations) {
      fill(m, n_bytes);
      const spread us = time_chain(m, n_bytes <= (1 << 20) ? 200 : 40, [&](rank_state &r) { op.run(r, rows, hidden); });
      report(op, static_cast<int>(m.ranks.size()), rows, hidden, us, json, is_first);
      is_first = false;
    }
  }
  time_combined(m, by_size, json);
  destroy(one);
  destroy(two);
  destroy(by_size);
  for (group &g : alone) destroy(g);
}

void open_ranks(machine &m, const std::vector<int> &devices)
{
  m.have_nccl = false;
  for (size_t r = 0; r < devices.size(); r++) {
    rank_state s = {};
    s.rank = (int)r;
    s.device = devices[r];
    CUDA_OK(cudaSetDevice(s.device));
    CUDA_OK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    for (char **p : {&s.partial, &s.residual, &s.y, &s.w}) CUDA_OK(cudaMalloc(p, MAX_BYTES));
    CUDA_OK(cudaMalloc(&s.slots, MOST_COMBINED * TOP_K * COMBINED_HIDDEN * 2));
    CUDA_OK(cudaMalloc(&s.weights, MOST_COMBINED * TOP_K * sizeof *s.weights));
    CUDA_OK(cudaMalloc(&s.slot_of_choice, MOST_COMBINED * TOP_K * sizeof *s.slot_of_choice));
    m.ranks.push_back(s);
  }
#ifdef YOKE_HAVE_NCCL
  std::vector<ncclComm_t> comms(devices.size());
  if (ncclCommInitAll(comms.data(), (int)devices.size(), devices.data()) == ncclSuccess) {
    for (size_t r = 0; r < devices.size(); r++) m.ranks[r].nccl = comms[r];
    m.have_nccl = true;
  }
#endif
}

struct options {
  report_options report;
  std::vector<int32_t> devices; /* empty: all */
};

yk_status parse_devices(void *user, const char *text, yk_err *err)
{
  return parse_numbers(text, *static_cast<std::vector<int32_t> *>(user), err);
}

options parse(int argc, char **argv)
{
  options o;
  std::vector<yk_option> options = {{.name = "devices",
                                     .kind = YK_OPTION_CALL,
                                     .value = &o.devices,
                                     .metavar = "LIST",
                                     .help = "CUDA devices, one for each rank, as 0,1",
                                     .fallback = "all",
                                     .parse = parse_devices}};
  add_options(options, o.report);
  parse_options("bench_allreduce",
                "Times all-reduce over GPUs, one-shot and two-shot, with residual add and RMSNorm fused in, beside "
                "NCCL. algbw is size / time, busbw is algbw * 2 (n - 1) / n for n GPUs, as in nccl-tests. NVLink "
                "multicast is kept off (NCCL_NVLS_ENABLE=0).",
                "  bench_allreduce --devices 0,1 --json allreduce.json\n", options, argc, argv);
  return o;
}

/* The devices to use, one per rank. */
yk_status find_devices(std::vector<int32_t> &devices, yk_err *err)
{
  int n_present = 0;
  for (int d : devices)
    if (std::count(devices.begin(), devices.end(), d) > 1)
      return yk_err_set(err, YK_E_INVAL, "--devices: expected a device for each rank, found %d twice", d);
  if (cudaGetDeviceCount(&n_present) != cudaSuccess || n_present == 0)
    return yk_err_set(err, YK_E_DEVICE, "no CUDA device was found");
  const bool takes_all = devices.empty();
  for (int d = 0; takes_all && d < n_present && d < YK_P2P_MAX_RANKS; d++) devices.push_back(d);
  for (int d : devices)
    if (d < 0 || d >= n_present)
      return yk_err_set(err, YK_E_INVAL, "--devices: expected CUDA devices from 0 to %d, found %d", n_present - 1, d);
  if (devices.size() < 2 || devices.size() > YK_P2P_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "expected 2 to %d CUDA devices, found %zu", YK_P2P_MAX_RANKS, devices.size());
  return YK_OK;
}

/* json: file for the figures in addition to standard output; NULL for none. */
void time_and_report(machine &m, const char *commit, FILE *json)
{
  int driver = 0;
  cudaDeviceProp prop;
  CUDA_OK(cudaDriverGetVersion(&driver));
  CUDA_OK(cudaGetDeviceProperties(&prop, m.ranks[0].device));
  const int n_ranks = static_cast<int>(m.ranks.size());
  printf("%d x %s, CUDA driver %d.%d\n", n_ranks, prop.name, driver / 1000, driver % 1000 / 10);
  if (json)
    fprintf(json,
            "{\n  \"gpu\": \"%s\", \"n_gpus\": %d, \"driver\": %d, \"commit\": \"%s\", \"command\": "
            "\"bench_allreduce\", \"dtype\": \"float16\",\n  \"cases\": [",
            prop.name, n_ranks, driver, commit);
  time_all(m, json);
  if (json) fprintf(json, "\n  ]\n}\n");
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  setvbuf(stdout, nullptr, _IOLBF, 0);
  options o = parse(argc, argv);
  FILE *json = open_figures(o.report);
  yk_err err = YK_ERR_INIT;
  if (find_devices(o.devices, &err) != YK_OK) return yk_cli_failure(&err);
  machine m;
  open_ranks(m, o.devices);
  time_and_report(m, o.report.commit, json);
  close_figures(o.report, json);
  return YK_EXIT_OK;
}
