"""What samplers take and give, under the name of older scripts."""
from ..data_format import SampledSequence, SampleResponse, SampleResponses, SamplingParams

__all__ = ["SampleResponse", "SampleResponses", "SampledSequence", "SamplingParams"]
