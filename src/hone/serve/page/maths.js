// TeX as models write it to MathML, which browsers set themselves. What is not known here is shown as it was written.
const MATHML = "http://www.w3.org/1998/Math/MathML";
const node = (tag, ...children) => {
  const made = document.createElementNS(MATHML, tag);
  made.append(...children);
  return made;
};

const LETTERS = Object.fromEntries(
  `alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ iota ι kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ tau τ phi ϕ varphi φ
   chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Phi Φ Psi Ψ Omega Ω infty ∞ partial ∂ nabla ∇ ell ℓ hbar ℏ emptyset ∅ forall ∀ exists ∃ dots … ldots … cdots ⋯`
    .split(/\s+/).reduce((pairs, word, i, all) => (i % 2 ? pairs : [...pairs, [word, all[i + 1]]]), []));
const OPERATORS = Object.fromEntries(
  `cdot ⋅ times × div ÷ pm ± mp ∓ le ≤ leq ≤ ge ≥ geq ≥ ne ≠ neq ≠ approx ≈ equiv ≡ sim ∼ propto ∝ to → rightarrow → leftarrow ← Rightarrow ⇒ implies ⇒ iff ⇔ mapsto ↦ in ∈ notin ∉
   subset ⊂ subseteq ⊆ cup ∪ cap ∩ setminus ∖ land ∧ lor ∨ neg ¬ mid ∣ parallel ∥ perp ⊥ angle ∠ circ ∘ langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ rceil ⌉ sum ∑ prod ∏ int ∫ oint ∮ { { } } | ‖`
    .split(/\s+/).reduce((pairs, word, i, all) => (i % 2 ? pairs : [...pairs, [word, all[i + 1]]]), []));
const BIG = new Set(["sum", "prod", "lim", "max", "min", "sup", "inf", "argmax", "argmin"]);
const FUNCTIONS = new Set("log ln exp sin cos tan cot arcsin arccos arctan sinh cosh tanh det dim ker gcd deg arg Pr lim max min sup inf argmax argmin".split(" "));
const WORDS = { text: "normal", mathrm: "normal", operatorname: "normal", mathbf: "bold", textbf: "bold", boldsymbol: "bold", mathbb: "double-struck", mathcal: "script" };
const SPACES = { ",": "0.17em", ":": "0.22em", ";": "0.28em", "!": "0", " ": "0.33em", quad: "1em", qquad: "2em" };
const ACCENTS = { hat: "^", bar: "¯", overline: "¯", vec: "→", tilde: "~", dot: "˙" };
const DEEPEST = 40;

class Unknown extends Error {}

const named = (name) => {
  const made = node("mo", name);
  for (const side of ["lspace", "rspace"]) made.setAttribute(side, "0.17em");
  return made;
};

class Reader {
  constructor(text) {
    this.pieces = text.match(/\\(?:[a-zA-Z]+|[^])|\d+(?:\.\d+)?|\s+|[^]/gu) ?? [];
    this.at = 0;
    this.depth = 0;
  }

  peek() {
    while (/^\s/.test(this.pieces[this.at] ?? "")) ++this.at;
    return this.pieces[this.at];
  }

  row(end) {
    if (++this.depth > DEEPEST) throw new Unknown();
    const row = node("mrow");
    for (let piece = this.peek(); piece !== end; piece = this.peek()) {
      if (piece === undefined || piece === "}") throw new Unknown();
      row.append(this.scripted());
    }
    if (end) ++this.at;
    --this.depth;
    return row;
  }

  // One thing with what stands above and below it.
  scripted() {
    const first = this.peek(), base = this.one(), stacked = BIG.has(first.slice(1));
    const scripts = {};
    for (let mark = this.peek(); mark === "^" || mark === "_" || mark === "'"; mark = this.peek()) {
      ++this.at;
      scripts[mark === "_" ? "_" : "^"] = mark === "'" ? node("mo", "′") : this.one();
    }
    const { _: below, "^": above } = scripts;
    if (below && above) return node(stacked ? "munderover" : "msubsup", base, below, above);
    if (below) return node(stacked ? "munder" : "msub", base, below);
    return above ? node(stacked ? "mover" : "msup", base, above) : base;
  }

  one() {
    const piece = this.peek();
    ++this.at;
    if (piece === undefined) throw new Unknown();
    if (piece === "{") return this.row("}");
    if (piece[0] === "\\") return this.command(piece.slice(1));
    if (/^\d/.test(piece)) return node("mn", piece);
    if (/^\p{L}/u.test(piece)) return node("mi", piece);
    if ("^_&}$#%".includes(piece)) throw new Unknown();
    return node("mo", piece === "-" ? "−" : piece === "*" ? "∗" : piece);
  }

  // The words between braces, as they stand there.
  words() {
    if (this.peek() !== "{") throw new Unknown();
    const end = this.pieces.indexOf("}", this.at);
    if (end < 0) throw new Unknown();
    const words = this.pieces.slice(this.at + 1, end).join("");
    this.at = end + 1;
    return words;
  }

  command(name) {
    if (name in LETTERS) return node("mi", LETTERS[name]);
    if (name in OPERATORS) return node("mo", OPERATORS[name]);
    if (FUNCTIONS.has(name)) return named(name);
    if (/^[tdc]?frac$/.test(name)) return node("mfrac", this.one(), this.one());
    if (name === "binom") return node("mrow", node("mo", "("), node("mfrac", this.one(), this.one()), node("mo", ")"));
    if (name === "sqrt") return this.root();
    if (name === "left" || name === "right") return this.fence();
    if (name in ACCENTS) return node("mover", this.one(), node("mo", ACCENTS[name]));
    if (name in WORDS) {
      const words = node(name === "text" ? "mtext" : "mi", this.words());
      words.setAttribute("mathvariant", WORDS[name]);
      return words;
    }
    if (name in SPACES) {
      const space = node("mspace");
      space.setAttribute("width", SPACES[name]);
      return space;
    }
    throw new Unknown();
  }

  // Drawn by hand: browsers without a font of mathematics leave the sign of a root out.
  root() {
    const degree = this.peek() === "[" && (++this.at, this.row("]"));
    const inside = node("mrow", this.one());
    inside.setAttribute("class", "root");
    return node("mrow", ...(degree ? [node("msup", node("mrow"), degree)] : []), node("mo", "√"), inside);
  }

  fence() {
    const piece = this.peek();
    ++this.at;
    return node("mo", piece === "." ? "" : piece?.[0] === "\\" ? OPERATORS[piece.slice(1)] ?? "" : piece ?? "");
  }
}

// null when the text says more than is known here.
export function maths(text, display) {
  try {
    const made = node("math", new Reader(text).row(undefined));
    if (display) made.setAttribute("display", "block");
    return made;
  } catch (problem) {
    if (problem instanceof Unknown) return null;
    throw problem;
  }
}
