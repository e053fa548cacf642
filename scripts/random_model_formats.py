"""Random tensors of one projection in each checkpoint format, and its entry in config.json (make_random_model.py).

A format is a function (name, k, n, settings) -> tensors, with K inputs and N outputs, and a function settings -> the
value of quantization_config.  Weights have the standard deviation 1/sqrt(K) in each of them.
"""

import collections
import functools
import math
import statistics
import zlib

import numpy as np

DTYPE_BYTES = {"I8": 1, "U8": 1, "F8_E4M3": 1, "F16": 2, "BF16": 2, "I32": 4, "F32": 4, "I64": 8}
FP8_BLOCK = 128

Tensor = collections.namedtuple("Tensor", "name dtype shape draw")  # draw(rng, count) -> array of the stored bits
# group_size: -1 for all of K; dtype: of scales and of 16-bit weights, F16 or BF16
Settings = collections.namedtuple("Settings", "group_size dtype")


# ---- Drawing --------------------------------------------------------------------------------------------------------

def to_16_bits(values, dtype):
    """float32 -> the 16 stored bits, rounded to nearest even."""
    values = np.asarray(values, dtype=np.float32)
    if dtype == "F16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def to_stored(values, dtype):
    return np.asarray(values, dtype=np.float32) if dtype == "F32" else to_16_bits(values, dtype)


@functools.cache
def unit_normal_quantiles():
    """The normal distribution as 65536 equally likely values: a random 16-bit number picks one."""
    normal = statistics.NormalDist()
    return np.array([normal.inv_cdf((i + 0.5) / 65536) for i in range(65536)])


def draw_from(table):
    """Draws values from a table of 65536 equally likely values: far faster than computing each value."""
    def draw(rng, count):
        return table[rng.integers(0, 1 << 16, size=count, dtype=np.uint16)]
    return draw


@functools.cache
def draw_normal(mean, std, dtype):
    return draw_from(to_stored(mean + std * unit_normal_quantiles(), dtype))


@functools.cache
def draw_scales(std, dtype):
    """Scales within 30 % of std."""
    return draw_from(to_stored(np.linspace(0.7, 1.3, 65536) * std, dtype))


@functools.cache
def draw_float8(std):
    """e4m3, rounded to the nearest, of a normal distribution."""
    bits = np.arange(0x7F)
    values = np.where(bits < 8, bits / 8 * 2.0 ** -6, (1 + bits % 8 / 8) * 2.0 ** (bits // 8 - 7))
    normal = std * unit_normal_quantiles()
    nearest = np.searchsorted((values[1:] + values[:-1]) / 2, np.abs(normal)).astype(np.uint8)
    return draw_from(nearest | np.where(normal < 0, np.uint8(0x80), np.uint8(0)))


def draw_words(rng, count):
    """Uniform integers: eight of 4 bits or four of 8 bits per word."""
    return rng.integers(0, 1 << 32, size=count, dtype=np.uint32)


def draw_bytes(rng, count):
    return draw_words(rng, -(-count // 4)).view(np.int8)[:count]


def draw_zeros(first):
    """Eight zero points per word: first plus two random bits in every nibble."""
    def draw(rng, count):
        return (draw_words(rng, count) & np.uint32(0x33333333)) + np.uint32(0x11111111 * first)
    return draw


def draw_constant(values, dtype):
    """The values, repeated."""
    def draw(rng, count):
        return np.resize(np.array(values, dtype=dtype), count)
    return draw


# ---- Formats --------------------------------------------------------------------------------------------------------

def uniform_std(n_values, n_zeros=1):
    """Standard deviation of q - z, q uniform over n_values integers and z over n_zeros."""
    return math.sqrt((n_values**2 - 1) / 12 + (n_zeros**2 - 1) / 12)


INT4_STD, INT4_NO_ZEROS_STD, INT8_STD = uniform_std(16, 4), uniform_std(16), uniform_std(256)


def group_of(name, k, settings):
    group = k if settings.group_size == -1 else settings.group_size
    if k % group:
        raise SystemExit(f"{name}: K {k} must be a multiple of the group size {group}")
    return group


def require_multiple(name, what, count, unit):
    if count % unit:
        raise SystemExit(f"{name}: {what} {count} must be a multiple of {unit}")


def plain(name, k, n, settings):
    return [Tensor(f"{name}.weight", settings.dtype, (n, k), draw_normal(0.0, 1 / math.sqrt(k), settings.dtype))]


def awq(name, k, n, settings):
    group, std = group_of(name, k, settings), 1 / math.sqrt(k)
    require_multiple(name, "N", n, 8)
    return [Tensor(f"{name}.qweight", "I32", (k, n // 8), draw_words),
            Tensor(f"{name}.qzeros", "I32", (k // group, n // 8), draw_zeros(6)),
            Tensor(f"{name}.scales", settings.dtype, (k // group, n), draw_scales(std / INT4_STD, settings.dtype))]


def awq_config(settings):
    return {"quant_method": "awq", "bits": 4, "group_size": settings.group_size, "zero_point": True,
            "version": "gemm", "modules_to_not_convert": None}


def reader(name):
    """Name of the group of projections that read the same x, which have the same order of inputs."""
    folder, _, role = name.rpartition(".")
    return f"{folder}.x" if role in ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "w1", "w3") else name


def gptq(bits, act_order=False):
    """Version 1, which stores zero points less one. Zero points of 8 bits are 128, as in symmetric quantisation."""
    def tensors(name, k, n, settings):
        group, std, unit = group_of(name, k, settings), 1 / math.sqrt(k), 32 // bits
        require_multiple(name, "K", k, unit)
        require_multiple(name, "N", n, unit)

        def draw_groups(rng, count):
            del rng
            order = np.random.default_rng(zlib.crc32(reader(name).encode()))
            inputs = order.permutation(count) if act_order else np.arange(count)
            return (inputs // group).astype(np.int32)

        zeros = draw_zeros(5) if bits == 4 else draw_constant([0x7F7F7F7F], np.uint32)
        scale = std / (INT4_STD if bits == 4 else INT8_STD)
        return [Tensor(f"{name}.qweight", "I32", (k // unit, n), draw_words),
                Tensor(f"{name}.qzeros", "I32", (k // group, n // unit), zeros),
                Tensor(f"{name}.scales", settings.dtype, (k // group, n), draw_scales(scale, settings.dtype)),
                Tensor(f"{name}.g_idx", "I32", (k,), draw_groups)]

    def config(settings):
        return {"quant_method": "gptq", "bits": bits, "group_size": settings.group_size, "desc_act": act_order,
                "sym": bits == 8, "checkpoint_format": "gptq", "lm_head": False}
    return tensors, config


def compressed_config(file_format, weights, inputs=None):
    return {"quant_method": "compressed-tensors", "format": file_format, "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs,
                                          "output_activations": None}},
            "ignore": ["lm_head", r"re:.*mlp\.gate$"], "kv_cache_scheme": None, "global_compression_ratio": None}


def compressed_packed(bits):
    """pack-quantized, symmetric."""
    def tensors(name, k, n, settings):
        group, std, unit = group_of(name, k, settings), 1 / math.sqrt(k), 32 // bits
        scale = std / (INT4_NO_ZEROS_STD if bits == 4 else INT8_STD)
        return [Tensor(f"{name}.weight_packed", "I32", (n, -(-k // unit)), draw_words),
                Tensor(f"{name}.weight_scale", settings.dtype, (n, k // group), draw_scales(scale, settings.dtype)),
                Tensor(f"{name}.weight_shape", "I64", (2,), draw_constant([n, k], np.int64))]

    def config(settings):
        by_group = settings.group_size != -1
        return compressed_config("pack-quantized", {
            "num_bits": bits, "type": "int", "symmetric": True, "strategy": "group" if by_group else "channel",
            "group_size": settings.group_size if by_group else None, "dynamic": False, "actorder": None})
    return tensors, config


def w8a8(name, k, n, settings):
    scale = 1 / math.sqrt(k) / INT8_STD
    return [Tensor(f"{name}.weight", "I8", (n, k), draw_bytes),
            Tensor(f"{name}.weight_scale", settings.dtype, (n, 1), draw_scales(scale, settings.dtype))]


def w8a8_config(settings):
    del settings
    weights = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "group_size": None,
               "dynamic": False}
    return compressed_config("int-quantized", weights, {**weights, "strategy": "token", "dynamic": True})


def fp8(name, k, n, settings):
    """Blocks of 128 x 128; e4m3 of standard deviation 64, so that few values reach the largest value, 448."""
    del settings
    std, blocks = 64.0, (-(-n // FP8_BLOCK), -(-k // FP8_BLOCK))
    return [Tensor(f"{name}.weight", "F8_E4M3", (n, k), draw_float8(std)),
            Tensor(f"{name}.weight_scale_inv", "F32", blocks, draw_scales(1 / math.sqrt(k) / std, "F32"))]


def fp8_config(settings):
    del settings
    return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
            "weight_block_size": [FP8_BLOCK, FP8_BLOCK]}


def fp8_channel(name, k, n, settings):
    std = 64.0
    return [Tensor(f"{name}.weight", "F8_E4M3", (n, k), draw_float8(std)),
            Tensor(f"{name}.weight_scale", settings.dtype, (n, 1), draw_scales(1 / math.sqrt(k) / std, settings.dtype))]


def fp8_channel_config(settings):
    del settings
    weights = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "channel", "group_size": None,
               "dynamic": False}
    return compressed_config("float-quantized", weights, {**weights, "strategy": "token", "dynamic": True})


E2M1_STD = 2.93  # of the 16 codes of a 4-bit float


def mxfp4_experts(name, n_experts, k, n):
    """gpt-oss: a projection of all experts, in blocks of 32 inputs whose scales are powers of 2."""
    exponent = 127 + math.floor(math.log2(1 / math.sqrt(k) / E2M1_STD))

    def draw_powers(rng, count):
        return rng.integers(exponent, exponent + 2, size=count, dtype=np.uint8)

    return [Tensor(f"{name}_blocks", "U8", (n_experts, n, k // 32, 16), draw_bytes),
            Tensor(f"{name}_scales", "U8", (n_experts, n, k // 32), draw_powers)]


def mxfp4_config(settings):
    del settings
    return {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}


FORMATS = {  # name: (tensors of a projection, quantization_config or None)
    "awq": (awq, awq_config),
    "gptq": gptq(4),
    "gptq-act-order": gptq(4, act_order=True),
    "gptq8": gptq(8),
    "ct4": compressed_packed(4),
    "ct8": compressed_packed(8),
    "w8a8": (w8a8, w8a8_config),
    "fp8": (fp8, fp8_config),
    "fp8-channel": (fp8_channel, fp8_channel_config),
    "mxfp4": (plain, mxfp4_config),  # of gpt-oss
    "plain": (plain, None),
}
