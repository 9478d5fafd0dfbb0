"""Give BriefContext to an agent as a tool. Needs OPENAI_API_KEY."""

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

from briefcontext import briefcontext_tool

agent = create_agent("openai:gpt-4o-mini", [briefcontext_tool(settings={"top_k": 8})])
question = "Does dexamethasone help people with COVID-19 who need no oxygen?"
result = agent.invoke({"messages": [HumanMessage(question)]})

print(result["messages"][-1].text)
for message in result["messages"]:
    if message.type == "tool":
        # The artifact is the whole answer. The agent's model reads a short version of it.
        for reference in message.artifact["references"]:
            print(f"[{reference['number']}] {reference['title']}")
