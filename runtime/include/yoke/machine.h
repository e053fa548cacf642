/* machine.h - measures the devices of this machine and the links between them. Needs no model. Part of
 * libyoke_tools. */
#ifndef YOKE_API_MACHINE_H
#define YOKE_API_MACHINE_H

#include <stdbool.h>

#include "yoke/device.h"
#include "yoke/limits.h"
#include "yoke/log.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Links ------------------------------------------------------------------------------------------------------- */

/* From one GPU to another. */
typedef struct yk_link {
  int from, to;      /* CUDA ordinals */
  bool peer_access;  /* programs on `from` can access the memory of `to`; if not, copies pass through the host */
  bool is_measured;  /* the following fields are valid */
  double copy_gb_s;  /* 10^9 bytes per second, in copies of 32 MiB */
  double latency_us; /* of one copy of 4 bytes, within a chain of such copies */
  char error[YK_ERR_MESSAGE_BYTES]; /* why the link could not be queried or measured; else "" */
} yk_link;

/* An all-reduce over all ranks with residual and norm, as after every row-parallel GEMM. */
typedef struct yk_all_reduce_time {
  int64_t n_bytes;
  double us;         /* median, of the slowest rank, in a chain that is recorded as a graph */
  const char *route; /* "one-shot", "two-shot" (both by stores into peers' memory), "nccl"; "two-level" over hosts */
} yk_all_reduce_time;

enum { YK_ALL_REDUCE_SIZES = 2 };

typedef struct yk_link_report {
  size_t struct_size;
  int n_links;       /* n_devices * (n_devices - 1): every ordered pair */
  yk_link *links;    /* [n_links], owned by the report */
  int n_all_reduces; /* 0: not measured */
  yk_all_reduce_time all_reduces[YK_ALL_REDUCE_SIZES];
  /* why the all-reduces could not be measured, or that their values are wrong; else "" */
  char all_reduce_error[YK_ERR_MESSAGE_BYTES];
} yk_link_report;

/* yk_links_test - test the links between GPUs, and small all-reduces over them with an engine's communicator: correct
 *   values and speed. A failure of one test is reported in *out.
 *   device_ids [n_devices]: CUDA ordinals, 1 to YK_MAX_RANKS of them, each once. measures: false only queries peer
 *   access, which is instant; true uses about 200 MB on each GPU and some seconds, and other work on the GPUs slows the
 *   measurement down.
 *   Free a report with yk_link_report_free, also after an error.
 *   Errors: YK_E_UNSUPPORTED (a build without CUDA), YK_E_INVAL (a GPU that is not there, or named twice),
 *   YK_E_NOMEM. */
yk_status yk_links_test_sized(const int *device_ids, int n_devices, bool measures, yk_link_report *out,
                              size_t struct_size, yk_err *err);
static inline yk_status yk_links_test(const int *device_ids, int n_devices, bool measures, yk_link_report *out,
                                      yk_err *err)
{
  return yk_links_test_sized(device_ids, n_devices, measures, out, sizeof *out, err);
}

void yk_link_report_free(yk_link_report *report);

/* ---- Machine ----------------------------------------------------------------------------------------------------- */

/* Performance of the devices of this machine, measured without a model. A row is one measurement. */
typedef enum yk_machine_kind {
  YK_MACHINE_MEMORY,    /* bytes per second: "read", "copy" (bytes read and bytes written, both counted) */
  YK_MACHINE_GEMM,      /* operations per second, 2 m k n a product: "plain" (16-bit weights), "awq" (4-bit weights) */
  YK_MACHINE_LINK,      /* bytes per second: "copy" from one GPU to another, "both ways" at once, both counted */
  YK_MACHINE_LATENCY,   /* a link's copy of 4 bytes, within a chain of such copies; its rate is meaningless and 0 */
  YK_MACHINE_ALL_REDUCE /* bytes per second of the reduced data: "yoke", "yoke, add and norm", "nccl" */
} yk_machine_kind;

typedef struct yk_machine_row {
  yk_machine_kind kind;
  const char *method;         /* see yk_machine_kind; a constant */
  int device, to;             /* CUDA ordinals; `to` is for links; -1: the CPU, or all of n_ranks devices */
  int n_ranks, n_threads;     /* ranks of an all-reduce, else 1; threads over all ranks on a CPU, else 0 */
  int64_t n_bytes;            /* of one operation, counted as in the rate; GEMM: of its weights */
  int64_t m, k, n;            /* GEMM: rows, inputs, outputs; else 0 */
  double us, us_low, us_high; /* one operation: the repeats' median, fastest and slowest, on the slowest rank */
  double rate;                /* bytes or operations per second, at the median */
  /* all-reduce: rate * 2 (n_ranks - 1) / n_ranks, as nccl-tests define bus bandwidth; else 0 */
  double bus_rate;
  char error[YK_ERR_MESSAGE_BYTES]; /* why it could not be measured, or is wrong; then all figures are 0. Else "" */
} yk_machine_row;

enum { YK_MACHINE_ALL_REDUCES = 256 };

/* Upper limits that follow from the rows: no run can be faster. Each is the slowest device's or link's, and 0 if no row
 * measured it. */
typedef struct yk_machine_limits {
  double memory_bytes_per_s; /* reads of one GPU; CPU: of the host with all threads, shared by all ranks */
  double gemm_flops;         /* products with 16-bit weights of one GPU; CPU: of the host with all threads */
  double link_bytes_per_s;   /* one way */
  int n_all_reduces;
  struct {
    int n_ranks;
    int64_t n_bytes;
    double us; /* of the fastest method */
  } all_reduces[YK_MACHINE_ALL_REDUCES];
} yk_machine_limits;

/* The processes of a measurement of networks; the fields mean what those of an engine's options do. */
typedef struct yk_machine_processes {
  int n, process; /* n 0 or 1: one process */
  bool starts_by_mpi;
  const char *master_host;
  int master_port; /* 0: 29500 */
  const char *key;
  const char *const *hosts; /* [n_hosts] */
  int n_hosts;
  double start_timeout_s; /* 0: 120 s */
  yk_log log;
} yk_machine_processes;

/* From one process to another, by the transport that carries the rows of CPU ranks. */
typedef struct yk_machine_network {
  int from, to; /* processes */
  char from_host[64], to_host[64];
  const char *transport;                                 /* "tcp", "mpi" */
  double latency_us, latency_us_low, latency_us_high;    /* one way: half of a round trip of 8 bytes */
  double bytes_per_s, bytes_per_s_low, bytes_per_s_high; /* one way, messages of 4 MiB; medians with their extremes */
} yk_machine_network;

typedef struct yk_machine_options {
  size_t struct_size;
  yk_device_kind device; /* auto: CUDA if there is any device, else CPU */
  const int *device_ids; /* [n_devices] CUDA ordinals, each once; NULL: all, but at most YK_MAX_RANKS */
  int n_devices;         /* 0 if device_ids is NULL */
  int n_ranks;           /* CPU: all-reduces over 2 .. n_ranks ranks; default 2 */
  int n_cpu_threads;     /* CPU: threads over all ranks; 0: every core */
  /* Size of each read and copy, larger than caches, 1 MiB to 1 TiB; 0: 2 GiB on GPUs, 1 GiB on a CPU. */
  int64_t memory_bytes;
  int64_t gemm_m, gemm_k, gemm_n; /* 0: 4096, 4096, 24576 on GPUs, 64, 4096, 4096 on a CPU; k, n multiples of 128 */
  /* Sizes are 1 KiB, 4 KiB, 16 KiB, ... up to this maximum, 1 KiB to 1 GiB; 0: 256 MiB on GPUs, 16 MiB on a CPU. */
  int64_t all_reduce_max_bytes;
  int n_repeats; /* 3 .. 100; default 9 */
  /* Called with each row when the row is complete, on the calling thread. May be NULL. */
  void (*on_row)(void *user, const yk_machine_row *row);
  void *on_row_user;
  /* Several processes, all of which call yk_machine_measure: process 0 measures its devices, and then each pair of
   * processes the network between them. */
  yk_machine_processes processes;
} yk_machine_options;

/* yk_machine_options_init - struct_size and every default above. Must come first. */
void yk_machine_options_init_sized(yk_machine_options *options, size_t struct_size);
static inline void yk_machine_options_init(yk_machine_options *options)
{
  yk_machine_options_init_sized(options, sizeof *options);
}

typedef struct yk_machine_report {
  size_t struct_size;
  yk_device_kind device; /* CPU or CUDA */
  size_t n_rows;
  yk_machine_row *rows; /* [n_rows], owned by the report */
  yk_machine_limits limits;
  size_t n_networks;            /* 0 with one process; else every ordered pair, in every process */
  yk_machine_network *networks; /* [n_networks], owned by the report */
} yk_machine_report;

/* yk_machine_measure - measure memory, GEMM, links and all-reduces, one after the other. Blocks for seconds to a
 *   minute. The failure of one measurement (for example too little memory, with the bytes needed and found) is reported
 *   in its row, and the other measurements continue; after an error that leaves a GPU unusable in this process, all
 *   later rows of that GPU report this error. Values of all-reduces and bytes of links are checked. Other work on the
 *   devices slows the measurement down.
 *   Free a report with yk_machine_report_free, also after an error.
 *   Errors: YK_E_INVAL (an option; a GPU that does not exist, or is named twice), YK_E_UNSUPPORTED (CUDA on a machine
 *   or in a build without it), YK_E_NOMEM; with several processes those of the roll call, and YK_E_COMM for all once
 *   one of them fails. Thread: any. */
yk_status yk_machine_measure_sized(const yk_machine_options *options, yk_machine_report *out, size_t struct_size,
                                   yk_err *err);
static inline yk_status yk_machine_measure(const yk_machine_options *options, yk_machine_report *out, yk_err *err)
{
  return yk_machine_measure_sized(options, out, sizeof *out, err);
}
void yk_machine_report_free(yk_machine_report *report);

/* yk_machine_kind_name - "memory", "gemm", "link", "latency", "all_reduce"; "unknown" for any other value. */
const char *yk_machine_kind_name(yk_machine_kind kind);

#ifdef __cplusplus
}
#endif
#endif
