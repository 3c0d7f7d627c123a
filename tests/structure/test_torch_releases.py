"""hone's sources are for torch 2.13 and for 2.7.1, the long-term release of NPU servers. What 2.7.1 lacks has a substitute in two files, and only they name it."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUBSTITUTES = {"src/hone/ops/newer_torch.h", "src/hone/device/memory.cpp"}
# The difference of the folders ATen/ops of the two wheels, without CUDA's functions, and what 2.7.1's at::accelerator lacks. A new overload of an
# older function is not seen here, only by a compiler with the headers of 2.7.1.
NEWER = ("_flash_attention_forward_no_dropout_inplace _foreach_clone _foreach_mm _foreach_powsum _fused_rms_norm _fused_rms_norm_backward _grouped_mm "
         "_philox_key_fold_in _philox_key_split _philox_normal _philox_uniform _scaled_grouped_mm_v2 _scaled_mm_v2 _upsample_lanczos2d_aa "
         "_upsample_lanczos2d_aa_backward _weight_int4pack_mm_with_scales_and_zeros hash_tensor linalg__powsum sym_is_contiguous "
         "getDeviceStats getMemoryInfo resetPeakStats emptyCache").split()
USE = re.compile(rf"(?:\bat::|\btorch::|\baccelerator::|\.|->)({'|'.join(NEWER)})\(|torch/headeronly/")


def sources():
    """Files that a build without CUDA compiles."""
    files = [*(ROOT / "src").rglob("*.cpp"), *(ROOT / "src").rglob("*.h"), *(ROOT / "python/src").glob("*")]
    names = (str(file.relative_to(ROOT)) for file in files)
    return sorted(name for name in names if "cuda" not in name)


def test_functions_newer_than_torch_2_7_are_used_by_their_substitutes_alone():
    found = {name: use[1] for name in sources() if name not in SUBSTITUTES for use in [USE.search((ROOT / name).read_text())] if use}
    assert found == {}, "give ops/newer_torch.h a substitute for torch 2.7.1"


def test_the_release_is_asked_for_by_the_substitutes_alone():
    asking = {name for name in sources() if re.search(r"#if.*(HONE_TORCH_2|TORCH_VERSION)", (ROOT / name).read_text())}
    assert asking == SUBSTITUTES


def test_the_package_allows_both_releases():
    assert '"torch>=2.7.1"' in (ROOT / "pyproject.toml").read_text()
