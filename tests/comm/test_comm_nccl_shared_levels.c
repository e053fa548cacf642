/* Ranks on several hosts: reductions in two levels, stores into slots within a host and NCCL between hosts. Processes
 * with a rank each stand for hosts of 1 and of 2 ranks: NCCL_HOSTID names the host of a process, and NCCL connects them
 * over the loopback network. The ranks of a host take different GPUs if there are several, else they share one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/cluster_fixture.h"
#include "comm/gpu_fixture.h"
#include "each_case.h"
#include "parallel/cluster/wire_tcp.h"
#include "parallel/comm_auto.h"
#include "parallel/gpu_places.h"
#include "yoke/process.h"

enum { HIDDEN = 4096, MAX_ROWS = 1024, MOST_RANKS = 4, N_REPLAYS = 5 };

static const yk_comm_auto_options options = {.max_rows = MAX_ROWS, .hidden = HIDDEN, .step_limit_s = 30};

/* A rank's arrays of n_rows rows, on its device and on the host. */
typedef struct rows {
  yk_comm *comm;
  int32_t n_rows;
  bool is_exact; /* sums are multiples of 1/16 that float16 holds */
  void *partial, *residual, *y, *w;
  uint16_t *values; /* host */
} rows;

static float partial_of(const rows *r, int rank, int64_t i)
{
  if (r->is_exact) return (float)((i * 7 + rank * 13) % 97 - 48) / 16;
  return sinf((float)(i % 65521) + (float)rank * 3.7f);
}

static float residual_of(int64_t i)
{
  return (float)(i % 31) / 8;
}

static float weight_of(int64_t i)
{
  return (float)(i % 13) / 4 - 1;
}

static int64_t count_of(const rows *r)
{
  return (int64_t)r->n_rows * HIDDEN;
}

static size_t bytes_of(const rows *r)
{
  return (size_t)count_of(r) * sizeof(uint16_t);
}

static bool open_rows(rows *r)
{
  yk_device *dev = r->comm->dev;
  r->values = malloc(bytes_of(r));
  return r->values && dev->ops->alloc(dev, bytes_of(r), &r->partial, NULL) == YK_OK &&
         dev->ops->alloc(dev, bytes_of(r), &r->residual, NULL) == YK_OK &&
         dev->ops->alloc(dev, bytes_of(r), &r->y, NULL) == YK_OK &&
         dev->ops->alloc(dev, HIDDEN * sizeof(uint16_t), &r->w, NULL) == YK_OK;
}

static void close_rows(rows *r)
{
  yk_device *dev = r->comm->dev;
  void *const arrays[] = {r->partial, r->residual, r->y, r->w};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) dev->ops->free(dev, arrays[i]);
  free(r->values);
}

static bool fill_rows(rows *r)
{
  yk_device *dev = r->comm->dev;
  const size_t n = (size_t)count_of(r);
  for (size_t i = 0; i < n; i++) yk_dtype_store(YK_F16, r->values, i, partial_of(r, r->comm->rank, (int64_t)i));
  if (dev->ops->upload(dev, r->partial, r->values, bytes_of(r), NULL) != YK_OK) return false;
  for (size_t i = 0; i < n; i++) yk_dtype_store(YK_F16, r->values, i, residual_of((int64_t)i));
  if (dev->ops->upload(dev, r->residual, r->values, bytes_of(r), NULL) != YK_OK) return false;
  for (size_t i = 0; i < HIDDEN; i++) yk_dtype_store(YK_F16, r->values, i, weight_of((int64_t)i));
  return dev->ops->upload(dev, r->w, r->values, HIDDEN * sizeof(uint16_t), NULL) == YK_OK;
}

static yk_all_reduce_add_norm_args args_of(const rows *r)
{
  return (yk_all_reduce_add_norm_args){.partial = {.rows = r->partial},
                                       .residual = r->residual,
                                       .y = r->y,
                                       .w = r->w,
                                       .n_rows = r->n_rows,
                                       .hidden = HIDDEN,
                                       .alpha = 1,
                                       .eps = 1e-6f};
}

static double sum_of(const rows *r, int64_t i)
{
  double sum = 0;
  for (int rank = 0; rank < r->comm->n_ranks; rank++) sum += partial_of(r, rank, i);
  return sum;
}

/* Elements of r->values, the downloaded residual, that are wrong. Inexact: four numbers up to 1 are rounded to float16,
 * their sums of a host, of all hosts and with a residual up to 3.75 too: by less than 4 * 2^-12 + 4 * 2^-10 + 2^-9. */
static int64_t wrong_residuals(const rows *r)
{
  const double tolerance = r->is_exact ? 0 : 7e-3;
  int64_t n_wrong = 0;
  for (int64_t i = 0; i < count_of(r); i++) {
    const double expected = residual_of(i) + sum_of(r, i);
    n_wrong += !(fabs(yk_dtype_load(YK_F16, r->values, (size_t)i) - expected) <= tolerance);
  }
  return n_wrong;
}

static int64_t wrong_norms(const rows *r)
{
  int64_t n_wrong = 0;
  for (int64_t row = 0; row < r->n_rows; row++) {
    double squares = 0;
    for (int64_t i = row * HIDDEN; i < (row + 1) * HIDDEN; i++) squares += pow(residual_of(i) + sum_of(r, i), 2);
    const double factor = 1 / sqrt(squares / HIDDEN + 1e-6);
    for (int64_t i = row * HIDDEN; i < (row + 1) * HIDDEN; i++) {
      const double expected = (residual_of(i) + sum_of(r, i)) * factor * weight_of(i - row * HIDDEN);
      n_wrong += !(fabs(yk_dtype_load(YK_F16, r->values, (size_t)i) - expected) <= 2e-3 * fabs(expected) + 1e-5);
    }
  }
  return n_wrong;
}

/* Whether all ranks hold the bits of r->values. */
static bool are_equal(const rows *r)
{
  uint64_t hash = 14695981039346656037u, all[MOST_RANKS] = {0};
  for (size_t i = 0; i < (size_t)count_of(r); i++) hash = (hash ^ r->values[i]) * 1099511628211u;
  if (r->comm->ops->gather_host(r->comm, &hash, sizeof hash, all, NULL) != YK_OK) return false;
  for (int rank = 0; rank < r->comm->n_ranks && r->comm->rank == 0; rank++)
    if (all[rank] != all[0]) return false;
  return true;
}

static int check_rows(rows *r)
{
  yk_device *dev = r->comm->dev;
  yk_err err = YK_ERR_INIT;
  const yk_all_reduce_add_norm_args args = args_of(r);
  if (!fill_rows(r)) return 1;
  if (r->comm->ops->all_reduce_add_norm(r->comm, &args, &err) != YK_OK ||
      dev->ops->download(dev, r->values, r->residual, bytes_of(r), &err) != YK_OK) {
    fprintf(stderr, "rank %d, %d rows: %s\n", r->comm->rank, r->n_rows, err.message);
    return 2;
  }
  if (wrong_residuals(r) != 0) return 3;
  if (!are_equal(r)) return 4;
  if (dev->ops->download(dev, r->values, r->y, bytes_of(r), NULL) != YK_OK) return 5;
  if (r->is_exact && wrong_norms(r) != 0) return 6;
  return are_equal(r) ? 0 : 7;
}

/* The sum of an array without rows, and of integers. */
static int check_arrays(rows *r)
{
  yk_device *dev = r->comm->dev;
  if (!fill_rows(r)) return 11;
  if (r->comm->ops->all_reduce(r->comm, r->partial, count_of(r), YK_F16, NULL) != YK_OK) return 12;
  if (dev->ops->download(dev, r->values, r->partial, bytes_of(r), NULL) != YK_OK) return 13;
  for (int64_t i = 0; i < count_of(r); i++)
    if (yk_dtype_load(YK_F16, r->values, (size_t)i) != sum_of(r, i)) return 14;
  return 0;
}

static int check_integers(yk_comm *comm)
{
  enum { N = 4096 };
  static int32_t values[N];
  const int n_ranks = comm->n_ranks;
  yk_device *dev = comm->dev;
  void *data;
  if (dev->ops->alloc(dev, sizeof values, &data, NULL) != YK_OK) return 21;
  for (int32_t i = 0; i < N; i++) values[i] = 1000001 * (comm->rank + 1) - i;
  if (dev->ops->upload(dev, data, values, sizeof values, NULL) != YK_OK) return 22;
  if (comm->ops->all_reduce_i32(comm, data, N, YK_REDUCE_SUM, NULL) != YK_OK) return 23;
  if (comm->ops->all_reduce_i32(comm, data, N, YK_REDUCE_MAX, NULL) != YK_OK) return 24;
  if (dev->ops->download(dev, values, data, sizeof values, NULL) != YK_OK) return 25;
  for (int32_t i = 0; i < N; i++)
    if (values[i] != 1000001 * (n_ranks * (n_ranks + 1) / 2) - n_ranks * i) return 26;
  dev->ops->free(dev, data);
  return 0;
}

/* A recorded sum has run once before; partial results are overwritten by some routes, and filled anew. */
static int check_graph(rows *r)
{
  yk_device *dev = r->comm->dev;
  yk_err err = YK_ERR_INIT;
  const yk_all_reduce_add_norm_args args = args_of(r);
  yk_graph *graph = NULL;
  if (!dev->ops->graph_begin) return 0;
  if (dev->ops->graph_begin(dev, &err) != YK_OK) return 31;
  const yk_status status = r->comm->ops->all_reduce_add_norm(r->comm, &args, &err);
  if (dev->ops->graph_end(dev, &graph, NULL) != YK_OK || status != YK_OK) {
    fprintf(stderr, "rank %d, recording %d rows: %s\n", r->comm->rank, r->n_rows, err.message);
    return 32;
  }
  for (int i = 0; i < N_REPLAYS; i++) {
    if (!fill_rows(r) || dev->ops->graph_run(dev, graph, NULL) != YK_OK) return 33;
    if (dev->ops->download(dev, r->values, r->residual, bytes_of(r), NULL) != YK_OK) return 34;
    if (wrong_residuals(r) != 0) return 35;
  }
  dev->ops->graph_destroy(dev, graph);
  return 0;
}

/* Returns the number of the check that failed, or 0. */
static int use_end(yk_comm *comm, int n_local)
{
  /* both sides of the crossover, the end of the slots, a slice that is no multiple of a thread block's rows */
  const int32_t crossover = comm->n_ranks / n_local == 2 ? 32 : 16;
  const int32_t row_counts[] = {1, 7, crossover, 33, 257, MAX_ROWS};
  int failed = 0;
  if (yk_comm_auto_levels_route(comm, 1) != YK_LEVELS_GATHER) return 40;
  if (yk_comm_auto_levels_route(comm, crossover) != YK_LEVELS_GATHER) return 41;
  if (yk_comm_auto_levels_route(comm, crossover + 1) != (n_local > 1 ? YK_LEVELS_SLICES : YK_LEVELS_NONE)) return 42;
  if (yk_comm_auto_route(comm, 1) != YK_P2P_NONE) return 43;
  for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++)
    for (int is_exact = 1; is_exact >= 0; is_exact--) {
      rows r = {.comm = comm, .n_rows = row_counts[i], .is_exact = is_exact};
      if (!open_rows(&r)) return 44;
      failed = check_rows(&r);
      if (failed == 0 && is_exact && r.n_rows >= 33) failed = check_arrays(&r);
      if (failed == 0 && is_exact && r.n_rows <= 33) failed = check_graph(&r);
      if (failed != 0) fprintf(stderr, "rank %d: check %d of %d rows\n", comm->rank, failed, r.n_rows);
      if (failed != 0) return failed;
      close_rows(&r);
    }
  return check_integers(comm);
}

static int run_process(cluster_party *party, int n_local)
{
  const int rank = party->options.process;
  yk_device *dev;
  yk_comm *comm;
  yk_err err = YK_ERR_INIT;
  char host[16];
  snprintf(host, sizeof host, "host-%d", rank / n_local);
  setenv("NCCL_HOSTID", host, 1);
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  cluster_join_all(party, 1);
  if (!party->cluster) return 50;
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  if (yk_cuda_device_create(rank % n_local % yk_cuda_device_count(), YK_F16, &limits, &dev, &err) != YK_OK) return 51;
  const yk_exchange exchange = yk_cluster_exchange(party->cluster);
  const yk_wires wires = yk_cluster_wires(party->cluster);
  if (yk_comm_auto_create(&party->options.world, &exchange, &wires, &dev, &options, &comm, &err) != YK_OK) {
    fprintf(stderr, "rank %d: %s\n", rank, err.message);
    return 52;
  }
  const int failed = use_end(comm, n_local);
  if (failed != 0) return failed; /* peers may wait: nothing here does */
  close_gpus(1, &dev, &comm);
  cluster_leave_all(party, 1);
  return 0;
}

/* The first process that ends with an error ends the others, which would wait for it. No process has used a GPU before
 * the fork. Returns the first exit code that is not 0. */
static int run_hosts(int n_hosts, int n_local)
{
  static const int one_each[MOST_RANKS] = {1, 1, 1, 1};
  cluster_party parties[MOST_RANKS];
  pid_t pids[MOST_RANKS];
  const int n = n_hosts * n_local;
  int first_code = 0;
  cluster_parties(parties, n, one_each, "127.0.0.1");
  for (int p = 0; p < n; p++) {
    pids[p] = fork();
    if (pids[p] == 0) _exit(run_process(&parties[p], n_local));
  }
  yk_listener_close(&parties[0].listener);
  for (int ended = 0; ended < n; ended++) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 61;
    for (int p = 0; p < n; p++)
      if (pids[p] == pid) pids[p] = 0;
    if (code == 0 || first_code != 0) continue;
    first_code = code;
    for (int p = 0; p < n; p++)
      if (pids[p] > 0) kill(pids[p], SIGKILL);
  }
  return first_code;
}

static void two_hosts_of_one_rank(void **state)
{
  (void)state;
  assert_int_equal(run_hosts(2, 1), 0);
}

static void two_hosts_of_two_ranks(void **state)
{
  (void)state;
  assert_int_equal(run_hosts(2, 2), 0);
}

static void four_hosts_of_one_rank(void **state)
{
  (void)state;
  assert_int_equal(run_hosts(4, 1), 0);
}

/* Needs no GPU. */
static void ranks_are_divided_into_hosts(void **state)
{
  (void)state;
  static const struct {
    const char *hosts; /* a letter for the host of each rank */
    int first, n, host_ranks;
  } cases[] = {{"aaaa", 0, 4, 4}, {"aabb", 0, 4, 2}, {"abcd", 0, 4, 1},   {"aabb", 0, 2, 2},   {"aabb", 2, 2, 2},
               {"aabb", 1, 2, 1}, {"aaab", 0, 4, 0}, {"abab", 0, 4, 0},   {"aaba", 0, 4, 0},   {"aabbaa", 0, 6, 0},
               {"a", 0, 1, 1},    {"abba", 0, 4, 0}, {"aabbcc", 0, 6, 2}, {"aabbcc", 2, 4, 2}, {"aaabbb", 0, 6, 3}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_gpu_places places = {.n_ranks = (int)strlen(cases[i].hosts)};
    for (int rank = 0; rank < places.n_ranks; rank++) places.of_rank[rank].host[0] = cases[i].hosts[rank];
    assert_int_equal(yk_gpu_places_host_ranks(&places, cases[i].first, cases[i].n), cases[i].host_ranks);
  }
}

/* Returns the number of GPUs, queried in another process. */
static int count_gpus(void)
{
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) _exit(yk_cuda_device_count());
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int main(void)
{
  yk_process_init();
  const char *required = getenv("YOKE_REQUIRE_GPU");
  const struct CMUnitTest places[] = {cmocka_unit_test(ranks_are_divided_into_hosts)};
  if (cmocka_run_group_tests_name("places", places, NULL, NULL) != 0) return 1;
  if (count_gpus() == 0) {
    printf("skipped, no device\n");
    return required && required[0] != '0' ? 1 : 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_hosts_of_one_rank), cmocka_unit_test(two_hosts_of_two_ranks),
                                     cmocka_unit_test(four_hosts_of_one_rank)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
