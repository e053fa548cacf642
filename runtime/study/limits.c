#include "study/limits.h"

#include <math.h>
#include <string.h>

const char *yk_limit_bound_name(yk_limit_bound bound)
{
  static const char *const names[] = {"memory", "gemm", "link"};
  return names[bound];
}

static double number_at(const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) && json_number_value(value) > 0 ? json_number_value(value) : 0;
}

bool yk_machine_rates_read(const json_t *machine, yk_machine_rates *out)
{
  size_t i;
  json_t *row;
  *out = (yk_machine_rates){.memory_bytes_per_s = number_at(machine, "memory_bytes_per_s"),
                            .gemm_flops = number_at(machine, "gemm_flops"),
                            .link_bytes_per_s = number_at(machine, "link_bytes_per_s")};
  const char *device = json_string_value(json_object_get(machine, "device"));
  out->is_shared = device && strcmp(device, "cpu") == 0;
  json_array_foreach(json_object_get(machine, "all_reduce"), i, row)
  {
    double ranks = number_at(row, "ranks"), bytes = number_at(row, "bytes"), us = number_at(row, "us");
    if (ranks < 2 || bytes <= 0 || us <= 0 || out->n_all_reduces == YK_MACHINE_MAX_ALL_REDUCES) continue;
    out->all_reduces[out->n_all_reduces].ranks = (int)ranks;
    out->all_reduces[out->n_all_reduces].bytes = bytes;
    out->all_reduces[out->n_all_reduces++].us = us;
  }
  return out->memory_bytes_per_s > 0 && out->gemm_flops > 0;
}

double yk_machine_all_reduce_s(const yk_machine_rates *machine, int ranks, double n_bytes)
{
  double low_bytes = 0, low_us = 0, high_bytes = INFINITY, high_us = 0;
  if (ranks < 2) return 0;
  for (size_t i = 0; i < machine->n_all_reduces; i++) {
    double bytes = machine->all_reduces[i].bytes, us = machine->all_reduces[i].us;
    if (machine->all_reduces[i].ranks != ranks) continue;
    if (bytes <= n_bytes && bytes > low_bytes) {
      low_bytes = bytes;
      low_us = us;
    }
    if (bytes >= n_bytes && bytes < high_bytes) {
      high_bytes = bytes;
      high_us = us;
    }
  }
  if (low_bytes > 0 && high_us > 0 && high_bytes > low_bytes)
    return 1e-6 * low_us * exp(log(high_us / low_us) * log(n_bytes / low_bytes) / log(high_bytes / low_bytes));
  if (high_us > 0) return 1e-6 * high_us;
  if (low_bytes > 0) return 1e-6 * low_us * n_bytes / low_bytes;
  return machine->link_bytes_per_s > 0 ? 2.0 * (ranks - 1) / ranks * n_bytes / machine->link_bytes_per_s : -1;
}

bool yk_machine_has_all_reduces(const yk_machine_rates *machine, int ranks)
{
  for (size_t i = 0; i < machine->n_all_reduces; i++)
    if (machine->all_reduces[i].ranks == ranks) return true;
  return false;
}

/* Sums of the times by bound. */
typedef struct sum {
  const yk_machine_rates *machine;
  double ranks;
  double bound_s[YK_BOUNDS];
  yk_step_work work;
} sum;

/* Adds n operations of so many bytes and flops each. */
static void add_operation(sum *total, double n, double bytes, double flops)
{
  double memory_s = bytes / total->machine->memory_bytes_per_s, gemm_s = flops / total->machine->gemm_flops;
  total->bound_s[memory_s >= gemm_s ? YK_BOUND_MEMORY : YK_BOUND_GEMM] += n * fmax(memory_s, gemm_s) / total->ranks;
  total->work.memory_s += n * memory_s / total->ranks;
  total->work.gemm_s += n * gemm_s / total->ranks;
}

static void add_product(sum *total, double n, double k, double columns, double rows, double element_bytes)
{
  add_operation(total, n, k * columns * element_bytes, 2 * rows * k * columns);
}

static void add_ffn(sum *total, double layers, double hidden, double ffn, double rows, double element_bytes)
{
  add_product(total, layers, hidden, 2 * ffn, rows, element_bytes);
  add_product(total, layers, ffn, hidden, rows, element_bytes);
}

/* Mean number of different experts that are read, if each row chooses top_k of them at random. */
static double distinct_experts(const yk_model_shapes *shapes, double rows)
{
  double n = (double)shapes->n_experts;
  return n * (1 - pow(1 - (double)shapes->top_k / n, rows));
}

/* Ratio of the time of the rank with the most whole experts to an even share. */
static double unevenness(const sum *total, const yk_model_shapes *shapes)
{
  double n = (double)shapes->n_experts;
  return ceil(n / total->ranks) / n * total->ranks;
}

static void add_experts(sum *total, const yk_model_shapes *shapes, const yk_limit_load *load, double rows,
                        double element_bytes)
{
  double layers = (double)shapes->n_expert_layers, hidden = (double)shapes->hidden_size;
  double weights = hidden * (double)shapes->expert_size, choices = rows * (double)shapes->top_k;
  double n_read = distinct_experts(shapes, rows), n = layers * (load->expert_parallel ? unevenness(total, shapes) : 1);
  add_product(total, layers, hidden, (double)shapes->n_experts, rows, load->element_bytes);
  add_operation(total, n, n_read * 2 * weights * element_bytes, 2 * choices * 2 * weights);
  add_operation(total, n, n_read * weights * element_bytes, 2 * choices * weights);
  add_ffn(total, layers, hidden, (double)shapes->shared_size, rows, element_bytes);
}

static double attention_layers(const yk_model_shapes *shapes)
{
  return (double)(shapes->n_layers - shapes->n_delta_layers);
}

/* Adds the projections of grouped-query attention. */
static void add_grouped(sum *total, const yk_model_shapes *shapes, double rows, double element_bytes)
{
  double layers = attention_layers(shapes), hidden = (double)shapes->hidden_size;
  double q_size = (double)(shapes->n_heads * shapes->head_dim),
         kv_size = (double)(shapes->n_kv_heads * shapes->head_dim);
  double gates_size = shapes->has_attention_gates ? q_size : 0;
  add_product(total, layers, hidden, q_size + gates_size + 2 * kv_size, rows, element_bytes);
  add_product(total, layers, q_size, hidden, rows, element_bytes);
}

/* Adds gated delta nets with the states of so many sequences. */
static void add_delta(sum *total, const yk_model_shapes *shapes, double rows, double n_seqs, double element_bytes)
{
  double layers = (double)shapes->n_delta_layers, hidden = (double)shapes->hidden_size;
  double n_values = (double)shapes->delta_value_heads, key_dim = (double)shapes->delta_key_dim;
  double keys_size = (double)shapes->delta_key_heads * key_dim,
         values_size = n_values * (double)shapes->delta_value_dim;
  double state_size = key_dim * values_size;
  add_product(total, layers, hidden, 2 * (keys_size + values_size + n_values), rows, element_bytes);
  add_operation(total, layers, n_seqs * 2 * state_size * sizeof(float), 2 * rows * 3 * state_size);
  add_product(total, layers, values_size, hidden, rows, element_bytes);
}

/* Adds the projections of latent attention. Each rank computes q_a and the latent vector itself: `repeated` (the number
 * of ranks) times in all. kv_b is multiplied as floats of float_bytes; it counts once a row, the minimum both with
 * absorbed weights and without. */
static void add_latent(sum *total, const yk_model_shapes *shapes, double repeated, double rows, double element_bytes,
                       double float_bytes)
{
  double layers = (double)shapes->n_layers, hidden = (double)shapes->hidden_size, heads = (double)shapes->n_heads;
  double q_size = heads * (double)(shapes->nope_dim + shapes->rope_dim), q_rank = (double)shapes->q_rank;
  double kv_rank = (double)shapes->kv_rank, value_dim = (double)shapes->value_dim;
  add_product(total, layers * repeated, hidden, kv_rank + (double)shapes->rope_dim, rows, element_bytes);
  if (q_rank > 0) add_product(total, layers * repeated, hidden, q_rank, rows, element_bytes);
  add_product(total, layers, q_rank > 0 ? q_rank : hidden, q_size, rows, element_bytes);
  add_product(total, layers, kv_rank, heads * ((double)shapes->nope_dim + value_dim), rows, float_bytes);
  add_product(total, layers, heads * value_dim, hidden, rows, element_bytes);
}

/* Adds one step of so many rows, with a row of lm_head for each of n_seqs sequences, whose attention needs so many
 * bytes and flops in each layer that has attention. */
static void add_step(sum *total, const yk_model_shapes *shapes, const yk_limit_load *load, double rows, double n_seqs,
                     double attention_bytes, double attention_flops)
{
  double layers = (double)shapes->n_layers, hidden = (double)shapes->hidden_size;
  double n_dense = layers - (double)shapes->n_expert_layers;
  bool is_quantised = shapes->linear_element_bytes > 0 && !load->no_quantisation;
  double element = is_quantised ? shapes->linear_element_bytes : load->element_bytes;
  if (shapes->kv_rank > 0)
    add_latent(total, shapes, load->ranks, rows, element, load->element_bytes);
  else
    add_grouped(total, shapes, rows, element);
  if (shapes->n_delta_layers > 0) add_delta(total, shapes, rows, n_seqs, element);
  add_ffn(total, n_dense, hidden, (double)shapes->intermediate_size, rows, element);
  if (shapes->n_expert_layers > 0) add_experts(total, shapes, load, rows, element);
  add_operation(total, attention_layers(shapes), attention_bytes, attention_flops);
  add_product(total, 1, hidden, (double)shapes->vocab_size, n_seqs, load->head_in_8_bits ? 1 : load->element_bytes);
  double all_reduce_s = yk_machine_all_reduce_s(total->machine, load->ranks, rows * hidden * load->element_bytes);
  total->bound_s[YK_BOUND_LINK] += (2 * layers + 1) * fmax(all_reduce_s, 0); /* two a layer, one for the embedding */
}

/* Bytes of K and V of a token in one layer, or of its latent vector, which every rank reads. */
static double kv_bytes_of(const yk_model_shapes *shapes, const yk_limit_load *load)
{
  if (shapes->kv_rank > 0) return load->ranks * (double)(shapes->kv_rank + shapes->rope_dim) * load->element_bytes;
  double head_dim = (double)shapes->head_dim;
  double head_bytes = load->kv_in_8_bits ? head_dim + sizeof(float) : head_dim * load->element_bytes;
  return 2 * (double)shapes->n_kv_heads * head_bytes;
}

/* Flops of attention over pairs of a row and a position that it sees, in prompts and in decodes: a product with K and
 * one with V. With latent attention, prompts expand latent vectors to K and V, and decodes multiply by the latent
 * vectors. */
static double attention_flops(const yk_model_shapes *shapes, double prompt_pairs, double decode_pairs)
{
  const yk_model_shapes *s = shapes;
  double heads = (double)s->n_heads;
  if (s->kv_rank == 0) return 4 * heads * (double)s->head_dim * (prompt_pairs + decode_pairs);
  return 2 * heads *
         (prompt_pairs * (double)(s->nope_dim + s->rope_dim + s->value_dim) +
          decode_pairs * (double)(2 * s->kv_rank + s->rope_dim));
}

static sum empty_sum(const yk_machine_rates *machine, const yk_limit_load *load)
{
  return (sum){.machine = machine, .ranks = machine->is_shared ? 1 : load->ranks};
}

yk_step_work yk_limit_decode_work(const yk_model_shapes *shapes, const yk_machine_rates *machine,
                                  const yk_limit_load *load)
{
  sum step = empty_sum(machine, load);
  double read_tokens = load->batch * (load->input_len + load->output_len / 2);
  add_step(&step, shapes, load, load->batch, load->batch, read_tokens * kv_bytes_of(shapes, load),
           attention_flops(shapes, 0, read_tokens));
  return step.work;
}

yk_step_work yk_limit_prompt_work(const yk_model_shapes *shapes, const yk_machine_rates *machine,
                                  const yk_limit_load *load, double rows)
{
  sum step = empty_sum(machine, load);
  add_step(&step, shapes, load, rows, rows / load->input_len, rows * kv_bytes_of(shapes, load),
           attention_flops(shapes, rows * load->input_len / 2, 0));
  return step.work;
}

static double total_of(const sum *added)
{
  return added->bound_s[YK_BOUND_MEMORY] + added->bound_s[YK_BOUND_GEMM] + added->bound_s[YK_BOUND_LINK];
}

void yk_limit_compute(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                      yk_limit *out)
{
  sum prefill = empty_sum(machine, load), decode = prefill;
  double kv_bytes = kv_bytes_of(shapes, load), context = load->input_len + load->output_len / 2;
  double n_decodes = load->output_len - 1;
  double own = load->input_len - load->shared_prefix, prefix = load->shared_prefix;
  double rows = load->batch * own + prefix;
  double pairs = (load->batch * (load->input_len * load->input_len - prefix * prefix) + prefix * prefix) / 2;
  add_step(&prefill, shapes, load, rows, load->batch, rows * kv_bytes, attention_flops(shapes, pairs, 0));
  add_step(&decode, shapes, load, load->batch, load->batch, load->batch * context * kv_bytes,
           attention_flops(shapes, 0, load->batch * context));
  *out = (yk_limit){.prefill_s = total_of(&prefill), .decode_step_s = total_of(&decode)};
  out->total_s = out->prefill_s + n_decodes * out->decode_step_s;
  for (int i = 0; i < YK_BOUNDS; i++) {
    out->bound_s[i] = prefill.bound_s[i] + n_decodes * decode.bound_s[i];
    if (out->bound_s[i] > out->bound_s[out->bound]) out->bound = (yk_limit_bound)i;
  }
}

void yk_limit_compute_flow(const yk_model_shapes *shapes, const yk_machine_rates *machine, const yk_limit_load *load,
                           yk_limit *out)
{
  sum step = empty_sum(machine, load);
  double kv_bytes = kv_bytes_of(shapes, load), context = load->input_len + load->output_len / 2;
  double n_steps = load->output_len, n_decodes = n_steps - 1;
  double own = load->input_len - load->shared_prefix, prefix = load->shared_prefix;
  double rows = load->batch / n_steps * (own + n_decodes);
  double read_tokens = load->batch / n_steps * (own + n_decodes * context);
  double a_step = load->batch / n_steps, pairs = a_step * (load->input_len * load->input_len - prefix * prefix) / 2;
  add_step(&step, shapes, load, rows, load->batch, read_tokens * kv_bytes,
           attention_flops(shapes, pairs, a_step * n_decodes * context));
  *out = (yk_limit){.decode_step_s = total_of(&step), .total_s = n_steps * total_of(&step)};
  for (int i = 0; i < YK_BOUNDS; i++) {
    out->bound_s[i] = n_steps * step.bound_s[i];
    if (out->bound_s[i] > out->bound_s[out->bound]) out->bound = (yk_limit_bound)i;
  }
}
