/* bench_read_cpu.c - how fast threads read memory: what a decode step on CPU ranks, which reads every weight once, can
 * reach at best.
 *
 * Each thread adds up a part of one buffer, which it has written itself, so that pages lie where they are read.      */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kernels/cpu/cpu_pool.h"

enum { LANES = 32, MAX_REPEATS = 101 };

typedef struct reader {
  uint64_t *words;
  uint64_t sums[1024]; /* by thread, so that no loop is taken away */
} reader;

static void fill(void *context, int thread, int64_t begin, int64_t end)
{
  const reader *r = context;
  (void)thread;
  for (int64_t i = begin * LANES; i < end * LANES; i++) r->words[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
}

static void add_up(void *context, int thread, int64_t begin, int64_t end)
{
  reader *r = context;
  uint64_t sum[LANES] = {0};
  for (int64_t i = begin; i < end; i++)
    for (int lane = 0; lane < LANES; lane++) sum[lane] += r->words[i * LANES + lane];
  uint64_t total = 0;
  for (int lane = 0; lane < LANES; lane++) total += sum[lane];
  r->sums[thread] += total;
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static int measure(int n_threads, int64_t n_bytes, int n_repeats)
{
  yk_cpu_pool *pool = NULL;
  yk_err err = YK_ERR_INIT;
  int64_t n_lines = n_bytes / (int64_t)(LANES * sizeof(uint64_t));
  static reader r;
  r.words = aligned_alloc(1 << 21, (size_t)n_bytes);
  if (!r.words) return fprintf(stderr, "bench_read_cpu: no memory for %lld bytes\n", (long long)n_bytes), 1;
  if (yk_cpu_pool_create(n_threads, &pool, &err) != YK_OK)
    return free(r.words), fprintf(stderr, "bench_read_cpu: %s\n", err.message), 1;
  double seconds[MAX_REPEATS];
  yk_cpu_pool_run(pool, n_lines, 1, fill, &r);
  for (int i = 0; i < n_repeats; i++) {
    int64_t start = yk_clock_now_ns();
    yk_cpu_pool_run(pool, n_lines, 1, add_up, &r);
    seconds[i] = yk_clock_seconds_since(start);
  }
  qsort(seconds, (size_t)n_repeats, sizeof *seconds, compare_doubles);
  double gb = (double)(n_lines * LANES) * sizeof(uint64_t) * 1e-9;
  printf("%4d threads: %7.2f GB/s (%.2f to %.2f)\n", n_threads, gb / seconds[n_repeats / 2],
         gb / seconds[n_repeats - 1], gb / seconds[0]);
  yk_cpu_pool_destroy(pool);
  free(r.words);
  return 0;
}

static const char usage[] =
    "usage: bench_read_cpu [options]\n"
    "  -t, --threads N  threads that read, each its own part (2)\n"
    "  -m, --mib N      size of what is read, in MiB: more than the caches hold (1024)\n"
    "  -r, --repeats N  1 to 101 (21)\n"
    "  -h, --help       this text\n"
    "Prints the median rate of a plain read of memory, and in brackets the slowest and the fastest.\n";

int main(int argc, char **argv)
{
  static const struct option names[] = {{"threads", required_argument, NULL, 't'},
                                        {"mib", required_argument, NULL, 'm'},
                                        {"repeats", required_argument, NULL, 'r'},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};
  int n_threads = 2, n_repeats = 21;
  int64_t mib = 1024;
  for (int c; (c = getopt_long(argc, argv, "t:m:r:h", names, NULL)) != -1;) {
    if (c == 't') n_threads = atoi(optarg);
    if (c == 'm') mib = atoi(optarg);
    if (c == 'r') n_repeats = atoi(optarg);
    if (c == 'h') return fputs(usage, stdout), 0;
    if (c == '?') return fputs(usage, stderr), 2;
  }
  if (n_threads < 1 || n_threads > 1024 || mib < 1 || n_repeats < 1 || n_repeats > MAX_REPEATS)
    return fputs(usage, stderr), 2;
  return measure(n_threads, mib << 20, n_repeats);
}
