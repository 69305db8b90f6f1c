// Starts the console.

import { render } from "preact";
import { App } from "./app";
import { resume } from "./state/session";
import "./style/index.css";

const place = document.getElementById("console");
if (place) render(<App />, place);
void resume();
