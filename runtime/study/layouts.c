#include "study/layouts.h"

#include <math.h>

/* Fitted; see layouts.h. */
static const double LAYER_ALONE_S = 20.5e-6, LAYER_SHARED_S = 14.0e-6, ALL_REDUCE_SKEW_S = 1.7e-6, STEP_S = 38e-6;

enum { ELEMENT_BYTES = 2, PROMPT_ROWS = 2048 /* of a step */, MOST_GATHERED_HOSTS = 8 };

typedef struct replica {
  yk_model_shapes stage; /* with the layers of the largest stage, without lm_head */
  const yk_model_shapes *model;
  const yk_layout_hosts *hosts;
  const yk_layout_load *load;
  int tp, pp;
  int tp_hosts; /* over which a group of tp ranks is spread */
} replica;

typedef struct step_time {
  double stage_s; /* without lm_head */
  double head_s;  /* lm_head, sampling, and the gap to the next step: the last stage */
  double all_reduce_s;
} step_time;

/* The largest number of ranks with measured all-reduces; 0: none. */
static int measured_ranks(const yk_machine_rates *rates)
{
  int most = 0;
  for (size_t i = 0; i < rates->n_all_reduces; i++)
    if (rates->all_reduces[i].ranks > most) most = rates->all_reduces[i].ranks;
  return most;
}

/* Within a host. Other rank counts than measured ones take the measured time of the most ranks, with the bytes and
 * starts of this count. */
static double host_all_reduce_s(const yk_layout_hosts *hosts, int ranks, double n_bytes)
{
  const yk_gpu_type *gpu = &hosts->gpu;
  if (ranks < 2) return 0;
  if (yk_machine_has_all_reduces(&hosts->rates, ranks)) return yk_machine_all_reduce_s(&hosts->rates, ranks, n_bytes);
  int known = measured_ranks(&hosts->rates);
  double sent = 2.0 * (ranks - 1) / ranks * n_bytes;
  if (known < 2)
    return 1e-6 * (gpu->all_reduce_start_us + (ranks - 2) * gpu->all_reduce_step_us) +
           sent / gpu->all_reduce_bytes_per_s;
  double same_sent = sent * known / (2.0 * (known - 1));
  return yk_machine_all_reduce_s(&hosts->rates, known, same_sent) +
         1e-6 * fmax(ranks - known, 0) * gpu->all_reduce_step_us;
}

/* The level between hosts, of which there are several. */
typedef struct host_level {
  double time_s, sent_bytes; /* sent by each host */
} host_level;

static host_level level_of(const replica *r, double n_steps, double sent_bytes)
{
  const double latency_s = n_steps * ceil(log2(r->tp_hosts)) * r->hosts->link_latency_s;
  return (host_level){latency_s + sent_bytes / r->hosts->link_bytes_per_s, sent_bytes};
}

static host_level between_hosts(const replica *r, double n_bytes)
{
  const double n_hosts = r->tp_hosts, ranks_of_host = r->tp / n_hosts;
  const host_level gathered = level_of(r, 1, (n_hosts - 1) * ranks_of_host * n_bytes);
  const host_level slices = level_of(r, 2, 2 * (n_hosts - 1) / n_hosts * n_bytes);
  return n_hosts <= MOST_GATHERED_HOSTS && gathered.time_s <= slices.time_s ? gathered : slices;
}

static double all_reduce_s(const replica *r, double n_bytes)
{
  if (r->tp == 1) return 0;
  double time_s = host_all_reduce_s(r->hosts, r->tp / r->tp_hosts, n_bytes);
  if (r->tp_hosts > 1) time_s += between_hosts(r, n_bytes).time_s;
  return time_s + ALL_REDUCE_SKEW_S;
}

/* Between stages: over the network if the next stage is on another host. Within a host a send takes as long as a small
 * all-reduce of two ranks. */
static double send_s(const replica *r, double n_bytes)
{
  const yk_layout_hosts *hosts = r->hosts;
  if (r->pp == 1) return 0;
  if (r->tp * r->pp <= hosts->gpus_per_host) return host_all_reduce_s(hosts, 2, n_bytes);
  return hosts->link_latency_s + n_bytes / hosts->link_bytes_per_s;
}

static double seconds(yk_step_work work)
{
  return work.memory_s + work.gemm_s;
}

/* prompt_rows 0: a decode step of `rows` sequences. */
static step_time time_step(const replica *r, double rows, double prompt_rows)
{
  yk_limit_load load = {.ranks = r->tp,
                        .batch = rows,
                        .input_len = r->load->input_len,
                        .output_len = r->load->output_len,
                        .element_bytes = ELEMENT_BYTES,
                        .kv_in_8_bits = r->load->kv_in_8_bits,
                        .head_in_8_bits = r->load->head_in_8_bits};
  yk_machine_rates rates = r->hosts->rates;
  yk_model_shapes whole = r->stage;
  whole.vocab_size = r->model->vocab_size;
  double stage_s, with_head_s, layers = (double)r->stage.n_layers, n_rows = prompt_rows > 0 ? prompt_rows : rows;
  if (prompt_rows > 0) {
    stage_s = seconds(yk_limit_prompt_work(&r->stage, &rates, &load, prompt_rows));
    with_head_s = seconds(yk_limit_prompt_work(&whole, &rates, &load, prompt_rows));
  } else {
    stage_s = seconds(yk_limit_decode_work(&r->stage, &rates, &load));
    with_head_s = seconds(yk_limit_decode_work(&whole, &rates, &load));
  }
  step_time time = {.head_s = with_head_s - stage_s + STEP_S};
  time.all_reduce_s = ((double)yk_model_sublayers(&r->stage) + 1) *
                      all_reduce_s(r, n_rows * (double)r->stage.hidden_size * ELEMENT_BYTES);
  time.stage_s = stage_s + layers * (r->tp > 1 ? LAYER_SHARED_S : LAYER_ALONE_S) + time.all_reduce_s;
  return time;
}

/* Time from one step of a group of sequences to the group's next step, with this number of groups. The sampled ids are
 * sent back to the first stage. */
static double cycle_s(const replica *r, const step_time *time, double rows, double groups)
{
  double send = send_s(r, rows * (double)r->stage.hidden_size * ELEMENT_BYTES);
  return fmax(r->pp * (time->stage_s + send) + time->head_s, groups * (time->stage_s + time->head_s));
}

/* For one of the tokens of a step of `rows`. */
static double sent_bytes(const replica *r, double rows)
{
  double row_bytes = (double)r->stage.hidden_size * ELEMENT_BYTES;
  if (r->tp_hosts > 1)
    return ((double)yk_model_sublayers(&r->stage) + 1) * between_hosts(r, rows * row_bytes).sent_bytes / rows;
  return r->tp * r->pp > r->hosts->gpus_per_host ? row_bytes : 0;
}

bool yk_layout_is_placed(const yk_layout_hosts *hosts, const yk_layout *layout)
{
  int per_host = hosts->gpus_per_host, replica_ranks = layout->tp * layout->pp;
  bool is_group_placed = layout->tp <= per_host ? per_host % layout->tp == 0 : layout->tp % per_host == 0;
  bool is_replica_placed = replica_ranks <= per_host ? per_host % replica_ranks == 0 : replica_ranks % per_host == 0;
  return is_group_placed && is_replica_placed;
}

yk_layout_speed yk_layout_compute(const yk_model_shapes *shapes, const yk_layout_hosts *hosts, const yk_layout *layout,
                                  const yk_layout_load *load)
{
  replica r = {
      yk_model_shapes_of_stage(shapes, layout->pp), shapes, hosts, load, layout->tp, layout->pp, .tp_hosts = 1};
  if (r.tp > hosts->gpus_per_host) r.tp_hosts = r.tp / hosts->gpus_per_host;

  double rows = fmax(load->batch / r.pp, 1), groups = load->batch / rows;
  step_time decode = time_step(&r, rows, 0);
  double cycle = cycle_s(&r, &decode, rows, groups);
  yk_layout_speed speed = {.step_s = cycle,
                           .all_reduce_s = r.pp * decode.all_reduce_s,
                           .sent_bytes = sent_bytes(&r, rows),
                           .hosts_per_tp_group = r.tp_hosts};

  double all_prompts = load->batch * load->input_len;
  double prompt_rows = fmin(PROMPT_ROWS, all_prompts), alone_rows = fmin(PROMPT_ROWS, load->input_len);
  step_time prompts = time_step(&r, 1, prompt_rows), alone = time_step(&r, 1, alone_rows);
  double slowest = prompts.stage_s + prompts.head_s;
  double send = send_s(&r, prompt_rows * (double)shapes->hidden_size * ELEMENT_BYTES);
  speed.prefill_rate = prompt_rows / slowest;
  double prefill_s = all_prompts / speed.prefill_rate + (r.pp - 1) * (prompts.stage_s + send);
  speed.first_token_s =
      (ceil(load->input_len / alone_rows) + r.pp - 1) * alone.stage_s + (r.pp - 1) * send + alone.head_s;
  speed.replica_rate = groups * rows * load->output_len / (prefill_s + (load->output_len - 1) * cycle);
  return speed;
}
