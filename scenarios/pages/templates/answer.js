"use strict";
for (const section of document.querySelectorAll("section.answer")) {
  const answer = JSON.parse(section.querySelector("script[type='application/json']").textContent);
  const box = section.querySelector(".picture"), still = section.querySelector(".still");
  const state = { epsilon: answer.epsilon, shown: answer.rungs, every: false, small: false };
  let view = null, last = 0, waiting = 0, width = 0;

  const follow = () => {
    for (const block of section.querySelectorAll("[data-epsilon]")) block.hidden = Number(block.dataset.epsilon) !== state.epsilon;
    if (!view) return;
    for (const name in state) view.signal(name, state[name]);
    view.run();
  };

  const draw = async () => {
    width = box.clientWidth;
    state.small = width < 500;
    const spec = structuredClone(answer.spec), inner = width - 38 - (state.small ? 96 : 122);
    // Room for names to the left of the smallest number of people, in decades of the axis
    const end = Math.log10(answer.most * 1.15), start = end - (end - Math.log10(answer.least)) * inner / (inner - (state.small ? 106 : 118));
    for (const part of spec.vconcat) part.width = inner;
    for (const parameter of spec.params) if (parameter.name === "xmin") parameter.value = 10 ** start; else if (parameter.name in state) parameter.value = state[parameter.name];
    const turn = ++last;
    // ast: expressions are interpreted, not compiled, so there is no eval. Default styles would be style elements, which the policy forbids.
    const result = await vegaEmbed(box, spec, { mode: "vega-lite", ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true }, logLevel: 1 });
    if (turn !== last) return;
    view = result.view;
    still.hidden = true;
    follow();
  };

  section.addEventListener("change", ({ target }) => {
    if (target.dataset.pick === "epsilon") state.epsilon = Number(target.value);
    if (target.dataset.pick === "rung") state.shown = Array.from(section.querySelectorAll("[data-pick=rung]:checked"), box => box.value);
    if (target.dataset.pick === "every") state.every = target.checked;
    follow();
  });
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => { if (box.clientWidth !== width) draw(); }, 150); });
  for (const hidden of section.querySelectorAll(".script")) hidden.hidden = false;
  draw();
}
