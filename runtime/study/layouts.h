/* layouts.h - the speed to expect of a model on tp x pp x replicas of a machine's GPUs.
 *
 * A step of r rows on tp ranks takes
 *   step = bytes / (B tp) + flops / (F tp) + layers c + (2 layers + 1) a(tp, 2 r hidden) + d
 * with the memory's rate B and the GEMM rate F of one GPU, all bytes and flops of limits.h (weights, KV, lm_head, and
 * attention), and all-reduces a of the rows. Unlike in the limit, the times for bytes and for flops of an operation are
 * added: the products of a few rows do not overlap completely with the loading of weights. c are the kernels' starts
 * and ends, 20.5 us a layer on one GPU and 14.0 on several, where an all-reduce does the norms; an all-reduce takes 1.7
 * us longer than in isolation, since ranks arrive one after the other; d, 38 us, is the sampling and the gap to the
 * next step. These are constants of separate kernels: one row of a dense model may run as one kernel on each GPU
 * (kernels/decode_layers.h) and then takes less, for Qwen3-8B on one and two H200s 35 and 26 us a layer in all.
 *
 * The four constants are fitted to the decode steps of Qwen3-8B on one and two H200s, mean error 1.5 %. Applied to
 * Qwen3-32B on one and two H200s, which the fit has not used: 3.8 %, at most 9.3 %; to Qwen3-8B on one and two H100s,
 * with their rates: 3.2 %; to Qwen3-8B on up to four H200s, with the type's all-reduces: 4.6 %, at most 14 %
 * (tests/unit/test_study_layouts.c). Prefill at batches up to 64: 3.4 to 7.7 %, at most 14 %. A mixture takes longer
 * than the formula, since its experts have few rows each: Qwen3-30B-A3B on one and two H200s 9 %, at most 24 %. Without
 * measurements: pipeline stages, networks, PCIe, GPUs whose rates are from a datasheet.
 *
 * With pp stages, pp groups of sequences run at the same time. A group's next step begins when it has passed all
 * stages, and a stage is free for the next group when it has finished the previous group:
 *   step(r) = max(sum of the stages' times + pp sends, pp x the slowest stage), each of r / pp rows.
 * Over h hosts an all-reduce has two levels (parallel/comm_levels.h): within each host, then the faster of two ways
 * between hosts, at a host's rate, with tp / h ranks on each:
 *   ceil(log2 h) latencies and (h - 1) tp / h times the bytes, up to 8 hosts: each rank gets the other hosts' sums
 *   2 ceil(log2 h) latencies and 2 (h - 1) / h times the bytes: each rank reduces a slice
 * Replicas are independent. */
#ifndef YK_STUDY_LAYOUTS_H
#define YK_STUDY_LAYOUTS_H

#include <stdbool.h>

#include "study/gpu_types.h"
#include "study/shapes.h"

typedef struct yk_layout {
  int tp, pp, replicas;
} yk_layout;

/* The machines, and the network between them. */
typedef struct yk_layout_hosts {
  yk_gpu_type gpu;
  yk_machine_rates rates; /* of the type, or measured; measured times of all-reduces have priority */
  int n_hosts, gpus_per_host;
  double link_bytes_per_s; /* of one host, in one direction */
  double link_latency_s;   /* of a message between hosts */
} yk_layout_hosts;

/* The load of one replica: batch requests run at a time. */
typedef struct yk_layout_load {
  double batch, input_len, output_len;
  bool kv_in_8_bits, head_in_8_bits;
} yk_layout_load;

typedef struct yk_layout_speed {
  double step_s;          /* between two tokens of a request */
  double all_reduce_s;    /* of step_s */
  double first_token_s;   /* of a request alone: its prompt */
  double prefill_rate;    /* prompt tokens/s of a replica */
  double replica_rate;    /* output tokens/s of a replica with prefill: batch requests, one after the other */
  double sent_bytes;      /* for a token, by each host of a replica to other hosts */
  int hosts_per_tp_group; /* hosts over which the all-reduces run */
} yk_layout_speed;

/* yk_layout_compute - see above. tp and pp at least 1, pp at most the number of layers; tp within a host, or over whole
 *   hosts. Thread: any. */
yk_layout_speed yk_layout_compute(const yk_model_shapes *shapes, const yk_layout_hosts *hosts, const yk_layout *layout,
                                  const yk_layout_load *load);

/* yk_layout_is_placed - whether a replica's ranks can be placed on such hosts: a group of tp ranks is on one host, or
 *   over whole hosts. Thread: any. */
bool yk_layout_is_placed(const yk_layout_hosts *hosts, const yk_layout *layout);

#endif
