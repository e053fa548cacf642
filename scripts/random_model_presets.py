"""Shapes of real models from their config.json (make_random_model.py)."""

QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "attention_bias": False,
         "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
         "num_key_value_heads": 8, "initializer_range": 0.02, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
         "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "use_sliding_window": False,
         "tie_word_embeddings": False, "use_cache": True, "vocab_size": 151936}

DEEPSEEK = {"hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "kv_lora_rank": 512,
            "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_layer_freq": 1, "seq_aux": True,
            "aux_loss_alpha": 0.001, "initializer_range": 0.02, "max_position_embeddings": 163840,
            "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": False, "use_cache": True}
DEEPSEEK_YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
                 "beta_slow": 1}

DEEPSEEK_V3 = {**DEEPSEEK, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "bos_token_id": 0,
               "eos_token_id": 1, "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
               "q_lora_rank": 1536, "moe_intermediate_size": 2048, "n_shared_experts": 1, "num_experts_per_tok": 8,
               "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": True}

DSA = {"index_topk": 2048, "index_head_dim": 128}  # the indexer's tensors are not written: Yoke does not read them

QWEN3_MOE = {**QWEN3, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_key_value_heads": 4,
             "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1,
             "mlp_only_layers": [], "output_router_logits": False, "router_aux_loss_coef": 0.001}

MIXTRAL = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu",
           "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.02,
           "num_experts_per_tok": 2, "num_key_value_heads": 8, "num_local_experts": 8, "output_router_logits": False,
           "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": None,
           "tie_word_embeddings": False, "use_cache": True}

ERNIE_MOE = {"architectures": ["Ernie4_5_MoeForCausalLM"], "model_type": "ernie4_5_moe", "hidden_act": "silu",
             "bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
             "rope_theta": 500000.0, "use_bias": False, "moe_num_experts": 64, "moe_layer_interval": 1,
             "vocab_size": 103424}

HYBRID = {"hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "head_dim": 256,
          "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
          "linear_value_head_dim": 128, "linear_num_key_heads": 16, "initializer_range": 0.02, "rms_norm_eps": 1e-6,
          "max_position_embeddings": 262144, "tie_word_embeddings": False, "use_cache": True}
QWEN3_5 = {**HYBRID, "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": 248320,
           "bos_token_id": 248044, "eos_token_id": 248044, "attn_output_gate": True, "output_gate_type": "swish",
           "rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                               "mrope_interleaved": True, "mrope_section": [11, 11, 10]}}

GPT_OSS = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_act": "silu",
           "attention_bias": True, "attention_dropout": 0.0, "bos_token_id": 199998, "eos_token_id": 200002,
           "pad_token_id": 199999, "experts_per_token": 4, "head_dim": 64, "hidden_size": 2880,
           "initial_context_length": 4096, "intermediate_size": 2880, "max_position_embeddings": 131072,
           "num_attention_heads": 64, "num_experts_per_tok": 4, "num_key_value_heads": 8, "rms_norm_eps": 1e-5,
           "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                            "original_max_position_embeddings": 4096, "truncate": False},
           "rope_theta": 150000, "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": False,
           "use_cache": True, "vocab_size": 201088}

GEMMA3 = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "attention_bias": False,
          "hidden_activation": "gelu_pytorch_tanh", "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
          "head_dim": 256, "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_local_base_freq": 10000,
          "sliding_window_pattern": 6, "tie_word_embeddings": True}

PRESETS = {
    "qwen3-0.6b": {**QWEN3, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
                   "max_window_layers": 28, "num_attention_heads": 16, "tie_word_embeddings": True},
    "qwen3-8b": {**QWEN3, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
                 "max_window_layers": 36, "num_attention_heads": 32},
    "qwen3-32b": {**QWEN3, "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64,
                  "max_window_layers": 64, "num_attention_heads": 64},
    "llama-2-7b": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                   "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2, "hidden_size": 4096,
                   "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
                   "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
                   "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
                   "use_cache": True, "vocab_size": 32000},
    "qwen3-30b-a3b": {**QWEN3_MOE, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
                      "max_window_layers": 48, "num_attention_heads": 32, "moe_intermediate_size": 768},
    "qwen3-235b-a22b": {**QWEN3_MOE, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 94,
                        "max_window_layers": 94, "num_attention_heads": 64, "moe_intermediate_size": 1536},
    "qwen2-57b-a14b": {"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "hidden_act": "silu",
                       "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643, "hidden_size": 3584,
                       "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 131072,
                       "max_window_layers": 28, "moe_intermediate_size": 2560, "num_attention_heads": 28,
                       "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 28, "num_key_value_heads": 4,
                       "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
                       "output_router_logits": False, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                       "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 20480,
                       "sliding_window": 65536, "tie_word_embeddings": False, "use_cache": True,
                       "use_sliding_window": False, "vocab_size": 151936},
    "mixtral-8x7b": {**MIXTRAL, "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
                     "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000},
    "mixtral-8x22b": {**MIXTRAL, "hidden_size": 6144, "intermediate_size": 16384, "max_position_embeddings": 65536,
                      "num_attention_heads": 48, "num_hidden_layers": 56, "vocab_size": 32768},
    "glm-4-32b": {"architectures": ["Glm4ForCausalLM"], "model_type": "glm4", "hidden_act": "silu",
                  "attention_bias": False, "bos_token_id": None, "eos_token_id": [151329, 151336, 151338],
                  "head_dim": 128, "hidden_size": 6144, "intermediate_size": 23040, "max_position_embeddings": 32768,
                  "num_attention_heads": 48, "num_hidden_layers": 61, "num_key_value_heads": 2,
                  "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                  "tie_word_embeddings": False, "vocab_size": 151552},
    "glm-4.5": {"architectures": ["Glm4MoeForCausalLM"], "model_type": "glm4_moe", "hidden_act": "silu",
                "attention_bias": True, "attention_dropout": 0.0, "bos_token_id": 151329, "eos_token_id": 151329,
                "first_k_dense_replace": 3, "head_dim": 128, "hidden_size": 5120, "initializer_range": 0.02,
                "intermediate_size": 12288, "max_position_embeddings": 131072, "moe_intermediate_size": 1536,
                "n_group": 1, "n_routed_experts": 160, "n_shared_experts": 1, "norm_topk_prob": True,
                "num_attention_heads": 96, "num_experts_per_tok": 8, "num_hidden_layers": 92,
                "num_key_value_heads": 8, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5, "rope_scaling": None,
                "rope_theta": 1000000, "routed_scaling_factor": 2.5, "tie_word_embeddings": False, "topk_group": 1,
                "use_cache": True, "use_qk_norm": True, "vocab_size": 151552},
    "glm-4.7-flash": {**DEEPSEEK, "architectures": ["Glm4MoeLiteForCausalLM"], "model_type": "glm4_moe_lite",
                      "bos_token_id": None, "eos_token_id": 154820, "hidden_size": 2048, "intermediate_size": 10240,
                      "num_hidden_layers": 47, "num_attention_heads": 20, "num_key_value_heads": 20,
                      "q_lora_rank": 768, "qk_nope_head_dim": 192, "v_head_dim": 256, "moe_intermediate_size": 1536,
                      "n_routed_experts": 64, "n_shared_experts": 1, "num_experts_per_tok": 4,
                      "first_k_dense_replace": 1, "topk_method": "noaux_tc", "n_group": 1, "topk_group": 1,
                      "routed_scaling_factor": 1.8, "norm_topk_prob": True, "max_position_embeddings": 202752,
                      "rms_norm_eps": 1e-5, "rope_theta": 1000000, "vocab_size": 154880},
    "deepseek-v3.2": {**DEEPSEEK_V3, **DSA, "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32",
                      "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
                      "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
                      "index_n_heads": 64, "rope_scaling": {**DEEPSEEK_YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
                      "vocab_size": 129280},
    "glm-5": {**DEEPSEEK_V3, **DSA, "architectures": ["GlmMoeDsaForCausalLM"], "model_type": "glm_moe_dsa",
              "eos_token_id": 154820, "hidden_size": 6144, "intermediate_size": 12288, "num_hidden_layers": 78,
              "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 2048, "qk_nope_head_dim": 192,
              "v_head_dim": 256, "n_routed_experts": 256, "first_k_dense_replace": 3, "n_group": 1, "topk_group": 1,
              "routed_scaling_factor": 2.5, "index_n_heads": 32, "max_position_embeddings": 202752,
              "rms_norm_eps": 1e-5, "rope_theta": 1000000, "vocab_size": 154880},
    "gemma-3-1b": {**GEMMA3, "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
                   "num_attention_heads": 4, "num_key_value_heads": 1, "sliding_window": 512,
                   "max_position_embeddings": 32768, "query_pre_attn_scalar": 256, "vocab_size": 262144},
    "gemma-3-27b": {**GEMMA3, "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
                    "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 1024,
                    "max_position_embeddings": 131072, "query_pre_attn_scalar": 168, "vocab_size": 262208,
                    "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "gpt-oss-20b": {**GPT_OSS, "num_hidden_layers": 24, "num_local_experts": 32},
    "gpt-oss-120b": {**GPT_OSS, "num_hidden_layers": 36, "num_local_experts": 128},
    "ernie-4.5-0.3b": {"architectures": ["Ernie4_5ForCausalLM"], "model_type": "ernie4_5", "hidden_act": "silu",
                       "bos_token_id": 1, "eos_token_id": 2, "head_dim": 128, "hidden_size": 1024,
                       "intermediate_size": 3072, "max_position_embeddings": 131072, "num_attention_heads": 16,
                       "num_hidden_layers": 18, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
                       "rope_theta": 500000.0, "tie_word_embeddings": True, "use_bias": False, "vocab_size": 103424},
    "ernie-4.5-21b-a3b": {**ERNIE_MOE, "hidden_size": 2560, "intermediate_size": 12288, "num_hidden_layers": 28,
                          "num_attention_heads": 20, "num_key_value_heads": 4, "moe_intermediate_size": 1536,
                          "moe_k": 6, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
                          "tie_word_embeddings": True},
    "ernie-4.5-300b-a47b": {**ERNIE_MOE, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 54,
                            "num_attention_heads": 64, "num_key_value_heads": 8, "moe_intermediate_size": 3584,
                            "moe_k": 8, "moe_num_shared_experts": 0, "moe_layer_start_index": 3,
                            "tie_word_embeddings": False},
    "seed-oss-36b": {"architectures": ["SeedOssForCausalLM"], "model_type": "seed_oss", "hidden_act": "silu",
                     "attention_bias": True, "attention_out_bias": False, "mlp_bias": False, "bos_token_id": 0,
                     "eos_token_id": 2, "head_dim": 128, "hidden_size": 5120, "intermediate_size": 27648,
                     "max_position_embeddings": 524288, "num_attention_heads": 80, "num_hidden_layers": 64,
                     "num_key_value_heads": 8, "rms_norm_eps": 1e-6, "rope_theta": 10000000.0,
                     "tie_word_embeddings": False, "vocab_size": 155136},
    "granite-3.3-8b": {"architectures": ["GraniteForCausalLM"], "model_type": "granite", "hidden_act": "silu",
                       "attention_bias": False, "attention_multiplier": 0.0078125, "bos_token_id": 0,
                       "embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_size": 4096,
                       "intermediate_size": 12800, "logits_scaling": 16.0, "max_position_embeddings": 131072,
                       "mlp_bias": False, "num_attention_heads": 32, "num_hidden_layers": 40,
                       "num_key_value_heads": 8, "residual_multiplier": 0.22, "rms_norm_eps": 1e-5,
                       "rope_theta": 10000000.0, "tie_word_embeddings": True, "vocab_size": 49159},
    "phi-4": {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_act": "silu",
              "attention_bias": False, "bos_token_id": 100257, "eos_token_id": 100265, "hidden_size": 5120,
              "intermediate_size": 17920, "max_position_embeddings": 16384, "num_attention_heads": 40,
              "num_hidden_layers": 40, "num_key_value_heads": 10, "rms_norm_eps": 1e-5, "rope_theta": 250000,
              "sliding_window": None, "tie_word_embeddings": False, "vocab_size": 100352},
    "qwen3.5-9b": {**QWEN3_5, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32,
                   "num_attention_heads": 16, "num_key_value_heads": 4, "linear_num_value_heads": 32},
    "qwen3.5-27b": {**QWEN3_5, "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
                    "num_attention_heads": 24, "num_key_value_heads": 4, "linear_num_value_heads": 48},
    "qwen3.5-35b-a3b": {**QWEN3_5, "architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text",
                        "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16,
                        "num_key_value_heads": 2, "linear_num_value_heads": 32, "num_experts": 256,
                        "num_experts_per_tok": 8, "moe_intermediate_size": 512,
                        "shared_expert_intermediate_size": 512},
    "qwen3-next-80b-a3b": {**HYBRID, "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
                           "vocab_size": 151936, "bos_token_id": 151643, "eos_token_id": 151645, "hidden_size": 2048,
                           "intermediate_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 16,
                           "num_key_value_heads": 2, "linear_num_value_heads": 32, "num_experts": 512,
                           "num_experts_per_tok": 10, "moe_intermediate_size": 512, "norm_topk_prob": True,
                           "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [],
                           "partial_rotary_factor": 0.25, "rope_theta": 10000000},
    "deepseek-v2-lite": {**DEEPSEEK, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
                         "bos_token_id": 100000, "eos_token_id": 100001, "hidden_size": 2048,
                         "intermediate_size": 10944, "num_hidden_layers": 27, "num_attention_heads": 16,
                         "num_key_value_heads": 16, "q_lora_rank": None, "moe_intermediate_size": 1408,
                         "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                         "first_k_dense_replace": 1, "topk_method": "greedy", "n_group": 1, "topk_group": 1,
                         "routed_scaling_factor": 1.0, "scoring_func": "softmax", "norm_topk_prob": False,
                         "rope_scaling": {**DEEPSEEK_YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
                         "vocab_size": 102400},
    "deepseek-v2": {**DEEPSEEK, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
                    "bos_token_id": 100000, "eos_token_id": 100001, "hidden_size": 5120, "intermediate_size": 12288,
                    "num_hidden_layers": 60, "num_attention_heads": 128, "num_key_value_heads": 128,
                    "q_lora_rank": 1536, "moe_intermediate_size": 1536, "n_routed_experts": 160,
                    "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
                    "topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3,
                    "routed_scaling_factor": 16.0, "scoring_func": "softmax", "norm_topk_prob": False,
                    "rope_scaling": {**DEEPSEEK_YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
                    "vocab_size": 102400},
    "deepseek-v3": {**DEEPSEEK_V3, "num_attention_heads": 128, "num_key_value_heads": 128, "n_routed_experts": 256,
                    "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
                    "rope_scaling": {**DEEPSEEK_YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, "vocab_size": 129280},
    "kimi-k2": {**DEEPSEEK_V3, "bos_token_id": 163584, "eos_token_id": 163585, "max_position_embeddings": 131072,
                "num_attention_heads": 64, "num_key_value_heads": 64, "n_routed_experts": 384,
                "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.827,
                "rope_theta": 50000.0, "rope_scaling": {**DEEPSEEK_YARN, "factor": 32, "mscale": 1.0,
                                                         "mscale_all_dim": 1.0, "beta_fast": 1, "beta_slow": 1},
                "vocab_size": 163840},
}


def n_experts(config):
    keys = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    return next((config[key] for key in keys if config.get(key)), 0)


def is_delta_net(config, layer):
    """Whether the layer is a gated delta net instead of attention."""
    return (layer + 1) % config.get("full_attention_interval", 1) != 0


def has_experts(config, layer):
    """Whether the layer's FFN is a mixture of experts."""
    if not n_experts(config):
        return False
    if "decoder_sparse_step" in config:
        return layer not in config["mlp_only_layers"] and (layer + 1) % config["decoder_sparse_step"] == 0
    first = config.get("first_k_dense_replace", config.get("moe_layer_start_index", 0))
    return layer >= first and layer % config.get("moe_layer_freq", 1) == 0
